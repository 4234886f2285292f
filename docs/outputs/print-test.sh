#!/bin/bash
# The test file that a command stands for.
. docs/outputs/lib
vmstorage run --axis format=raw,qcow2 --fio 'rw=randread bs=4k runtime=5' --at-least iops=500 --print-test
