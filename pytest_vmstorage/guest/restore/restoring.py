"""Guests that are restored from a saved guest in place of a boot, where both are proven to be equal."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping

from pytest_vmstorage.config.buses import BUSES, Bus
from pytest_vmstorage.config.settings import Accel
from pytest_vmstorage.errors import BootTimeoutError, HypervisorError, VmStorageError
from pytest_vmstorage.guest.agent import AgentShell
from pytest_vmstorage.guest.domain_xml import GuestSpec
from pytest_vmstorage.guest.instance import Begun
from pytest_vmstorage.guest.libvirt.messages import IO_HELPER, IO_HELPER_PACKAGE, lacks_io_helper
from pytest_vmstorage.guest.protocol import Domain, Hypervisor
from pytest_vmstorage.guest.restore.parking import park, wake
from pytest_vmstorage.guest.restore.states import NOT_CALIBRATED, State, States, is_proven, is_restorable
from pytest_vmstorage.progress import Progress, silent
from pytest_vmstorage.results.spans import span, waiting_for
from pytest_vmstorage.units import format_duration


class Restoring:
    """Begins guests on one host from its saved states, and makes the states that are missing.

    `xml_of` returns a guest's XML, `note` puts a UUID into the run's lease before its guest is begun. `begin` restores
    every guest that can be, `begin_proven` only guests that were shown to have the figures of booted ones: by the
    host's own calibration, which `calibrated` tells by bus, else by the project's pairs.
    """

    def __init__(
        self,
        hypervisor: Hypervisor,
        states: States,
        *,
        xml_of: Callable[[GuestSpec], str],
        note: Callable[[str], None],
        timeout_s: float,
        say: Progress = silent,
        calibrated: Mapping[Bus, bool] = NOT_CALIBRATED,
    ) -> None:
        self.calibrated = calibrated
        self._hypervisor, self._states, self._timeout_s, self._say = hypervisor, states, timeout_s, say
        self._xml_of, self._note = xml_of, note
        self._locks: dict[str, threading.Lock] = {}
        self._distrusted: set[str] = set()
        self._unready: list[Domain] = []
        self._is_over = False
        self._lacks_helper = False
        self._telling = threading.Lock()

    def begin(self, spec: GuestSpec) -> Begun:
        """Begin that guest, restored where it can be; raises HypervisorError where it cannot even be booted."""
        begun = self._restored(spec) if is_restorable(spec) and not self._lacks_helper else None
        return begun or self._booted(spec)

    def way(self, boot: str | None, accel: Accel) -> Callable[[GuestSpec], Begun] | None:
        """The function that begins guests with --vm-boot=`boot`; None where every guest is booted."""
        if boot == "restore":
            return self.begin
        is_any_proven = any(self.calibrated.get(name, accel in bus.proven_restored) for name, bus in BUSES.items())
        return self.begin_proven if boot is None and is_any_proven else None

    def begin_proven(self, spec: GuestSpec) -> Begun:
        """Begin that guest, restored where this is proven to be equal, else booted; raises as `begin`."""
        return self.begin(spec) if is_proven(spec, self.calibrated) else self._booted(spec)

    def distrust(self, spec: GuestSpec, why: object) -> None:
        """Boot every guest of that kind from now on, because a restored one was not as it should be."""
        name = self._states.name(spec)
        self._distrusted.add(name)
        self._states.drop(name)
        if not lacks_io_helper(str(why)):
            self._say(f"a restored guest cannot be used, so such guests are booted: {why}")
            return
        # no guest of this host can be restored, of whatever kind: one message is enough
        with self._telling:
            is_told, self._lacks_helper = self._lacks_helper, True
        if not is_told:
            self._say(
                f"guests are booted, which takes longer than restoring them: {IO_HELPER}, by which libvirt restores"
                f" guests, is not installed on this host. Install the package {IO_HELPER_PACKAGE}."
            )

    def forget(self, spec: GuestSpec) -> None:
        """Drop the state of that kind of guest, so that the next one saves it anew."""
        self._states.drop(self._states.name(spec))

    def stop(self) -> None:
        """End the run's guests that are not ready yet, and save or restore no more; guests that boot are waited for."""
        self._is_over = True
        for domain in tuple(self._unready):
            # a guest that cannot be ended here is removed with the rest of the run
            with contextlib.suppress(VmStorageError):
                domain.destroy()

    def close(self) -> None:
        """Give back the memory that saved guests take; none is restored after that."""
        self._states.close()

    def go_on(self) -> None:
        """Take `stop` back: pytest's debugger goes on after Ctrl-C."""
        self._is_over = False

    def _check_goes_on(self) -> None:
        if self._is_over:
            raise HypervisorError("No guest is begun any more: the run ends.", code="VM510")

    def _booted(self, spec: GuestSpec) -> Begun:
        self._check_goes_on()
        return Begun(self._hypervisor.start(self._xml_of(spec)))

    def _restored(self, spec: GuestSpec) -> Begun | None:
        name = self._states.name(spec)
        try:
            with span("restore"):
                with self._alone(name):
                    domain = self._begun_from(spec, name)
                return Begun(self._woken(domain, spec), is_restored=True) if domain is not None else None
        except VmStorageError as error:
            self._check_goes_on()
            self.distrust(spec, error)
            return None

    @contextlib.contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """Context in which no other thread uses that state: its head holds the XML of one guest at a time."""
        lock = self._locks.setdefault(name, threading.Lock())
        with contextlib.ExitStack() as held:
            # a span of its own: to wait until the first guest of a kind is saved is no part of being restored
            with span("queue"), waiting_for("another guest of its kind"):
                held.enter_context(lock)
            yield

    def _begun_from(self, spec: GuestSpec, name: str) -> Domain | None:
        self._check_goes_on()
        if name in self._distrusted:
            return None
        try:
            state = self._states.take(name)
            if state is None:
                with span("save"):
                    state = self._made(spec, name)
            xml = self._xml_of(spec)
            self._states.write_head(state, xml)
            self._check_goes_on()
            return self._hypervisor.restore(xml, state.path)
        except (KeyboardInterrupt, SystemExit):
            # set before another thread gets the lock, and would save the state in this one's place
            self._is_over = True
            raise

    def _woken(self, domain: Domain, spec: GuestSpec) -> Domain:
        """Wait for the restored guest's agent, and tell it to look at its disk."""
        config = spec.config
        fills = config is not None and config.state != "fresh" and not (config.arrives_filled or spec.is_filled)
        try:
            with self._unready_meanwhile(domain):
                self._wait(domain, "restored")
                wake(AgentShell(domain), fills=fills)
        except BaseException:
            domain.destroy()
            raise
        return domain

    def _made(self, spec: GuestSpec, name: str) -> State:
        """Boot a guest with that guest's disk, which it releases, and save it; raises VmStorageError."""
        self._say("saving a guest from which others are restored")
        own = str(uuid.uuid4())
        first = spec.model_copy(update={"uuid": own, "name": f"{spec.name}-saved", "console": f"{spec.console}-saved"})
        self._note(own)
        try:
            domain = self._hypervisor.start(self._xml_of(first))
            with self._unready_meanwhile(domain):
                self._wait(domain, "to be saved")
                park(AgentShell(domain))
                domain.save(self._states.path(name))
        finally:
            # after Ctrl-C libvirt may have started a guest that no variable holds yet
            begun = self._hypervisor.find(own)
            if begun is not None:
                begun.destroy()
        return self._states.keep(name)

    @contextlib.contextmanager
    def _unready_meanwhile(self, domain: Domain) -> Iterator[None]:
        self._unready.append(domain)
        try:
            # a `stop` from before the guest was in the list did not end it
            self._check_goes_on()
            yield
        finally:
            self._unready.remove(domain)

    def _wait(self, domain: Domain, which: str) -> None:
        if not domain.wait_for_agent(self._timeout_s):
            raise BootTimeoutError(
                f"The guest {which} did not answer in {format_duration(self._timeout_s)}.", code="VM501"
            )
