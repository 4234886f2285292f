#!/bin/bash
# What this host can have, some of the axes.
. docs/outputs/lib
vmstorage doctor > said || true
awk '/^axis/ {on = 1} /^[a-z]/ {on = /^(axis|cache|preallocation|backing|vcpus) /} on' said
