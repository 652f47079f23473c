# SPDX-License-Identifier: Apache-2.0
"""The rules that hold for every DNS provider. Authors do not change this file.

A record set is a dict with name, type, ttl and values. Each value is bytes. A set without values
stands for a set that does not exist. A set of records() also has veiled=True if the provider
proxies or flattens it, so that name servers return other records. A change is a pair of sets: the
set as it was when the change was planned, and the desired set.
"""

import contextlib
import re
import threading

from tenantry_plugin import Outcome, broken_answer, unknown_effect
from tenantry_zonefile import plain_name


def methods():
    """Returns the calls of the service DNSProvider."""
    from plugins.proto import dns_pb2 as pb

    def zone(message):
        return {"id": message.id, "name": message.name, "name_servers": list(message.name_servers), "idle": message.idle}

    def record_set(message):
        return {"name": message.name, "type": message.type, "ttl": message.ttl, "values": list(message.values), "veiled": message.veiled}

    def answer(sets):
        return pb.RecordSets(sets=[pb.RecordSet(**s) for s in sets])

    def apply(provider, call, request):
        changes = [(record_set(c.before), record_set(c.after)) for c in request.changes]
        return answer(provider.apply(call, zone(request.zone), changes))

    return {
        "DNSProvider/Check": (pb.DNSCheckRequest, lambda provider, call, _: pb.DNSReach(zones=provider.check(call))),
        "DNSProvider/Zone": (pb.ZoneRequest, lambda provider, call, request: pb.DNSZone(**provider.zone(call, request.name))),
        "DNSProvider/Records": (pb.ZoneRecordsRequest, lambda provider, call, request: answer(provider.records(call, zone(request.zone)))),
        "DNSProvider/Apply": (pb.ApplyRequest, apply),
    }


def no_zone():
    """Returns the outcome for a zone to which the credential has no access."""
    return Outcome("refused", "zone_not_found", "the DNS provider shows no such zone to this credential", "provider_error")


def changed():
    """Returns the outcome for a write that was refused because the zone has changed."""
    return Outcome("refused", "zone_changed", "the zone has changed since the write was planned; nothing was written", "provider_error")


def overlapped():
    """Returns the outcome for a write that was made although someone else changed the zone.

    The other change was between the last read and the write. Raise this outcome only if the
    provider's answer proves this, for example by a serial that has increased by two. The work on
    the domain then stops until a person has checked the zone.
    """
    return Outcome("broken", "zone_changed_during_write", "the zone was changed by someone else during the write, so a value may be lost")


def find(sets, name, kind):
    """Returns the set with a name and type, or a set without values."""
    for s in sets:
        if s["type"] == kind and plain_name(s["name"]) == plain_name(name):
            return s
    return {"name": name, "type": kind, "ttl": 0, "values": []}


def same(a, b):
    """Reports whether two sets have the same values, in any order."""
    return sorted(a["values"]) == sorted(b["values"])


def check_changes(zone, changes):
    """Raises an outcome for changes that no plan contains, such as a change outside the zone."""
    zone, seen = plain_name(zone), set()
    for before, after in changes:
        name, kind = plain_name(after["name"]), after["type"]
        if ((name, kind) != (plain_name(before["name"]), before["type"]) or (name, kind) in seen
                or name != zone and not name.endswith("." + zone)
                or not re.fullmatch("[A-Z0-9-]+", kind)  # types are compared exactly
                or kind == "SOA" or kind == "NS" and name == zone
                or kind == "CNAME" and len(after["values"]) > 1):
            raise Outcome("refused", "change_not_allowed", "this change of the zone is not allowed", "provider_error")
        seen.add((name, kind))


def outstanding(current, changes):
    """Returns the desired sets that the zone does not have yet.

    If only the set as planned is veiled, the change also ends the proxying or flattening. The
    desired set is then returned even if its values stay the same.

    Raises changed() if a current set equals neither set of its change, or if a CNAME would share
    its name with other records.
    """
    missing, after_all = [], {(plain_name(s["name"]), s["type"]): s for s in current}
    for before, after in changes:
        now = find(current, after["name"], after["type"])
        if not same(now, after) and not same(now, before):
            raise changed()
        unveils = now.get("veiled") and before.get("veiled") and not after.get("veiled")
        if not same(now, after) or unveils:
            # If a change keeps the TTL, the set keeps the TTL that the provider has.
            keeps = now["values"] and before["ttl"] == after["ttl"]
            missing.append({**after, "ttl": now["ttl"] if keeps else after["ttl"]})
        after_all[plain_name(after["name"]), after["type"]] = after
    for _, after in changes:
        others = [s for (name, kind), s in after_all.items()
                  if name == plain_name(after["name"]) and kind != after["type"] and s["values"]]
        if after["values"] and any("CNAME" in (s["type"], after["type"]) for s in others):
            raise changed()
    return missing


def check_written(sets, written):
    """Returns the sets of a zone after a write. Raises an outcome if they lack a written set."""
    if not all(same(find(sets, s["name"], s["type"]), s) for s in written):
        raise broken_answer("missing_after_write")
    return sets


def read_back(provider, call, zone, written):
    """Reads a zone after a write, and returns its sets like check_written.

    It is for providers whose answer to a write does not have the sets of the zone. If the read
    fails, the write may have changed the zone, so the outcome never says that nothing changed.
    """
    try:
        sets = provider.records(call, zone)
    except Outcome as outcome:
        if outcome.kind in ("refused", "not_ready", "throttled", "down"):
            raise unknown_effect("not_read_back") from None
        raise
    return check_written(sets, written)


_locks = [threading.Lock() for _ in range(256)]  # two zones may have the same lock


@contextlib.contextmanager
def hold(call, zone_id):
    """Holds the lock of a zone in a `with` statement, from the read of the zone to the write.

    It is for providers whose writes cannot be conditional on an unchanged zone. It serializes the
    writes of this process. Raises an outcome if the call does not get the lock before its deadline.
    """
    lock = _locks[hash(zone_id) % len(_locks)]
    if not lock.acquire(timeout=max(0.0, call.time_left())):
        raise unknown_effect("no_answer")
    try:
        yield
    finally:
        lock.release()


def sets_after(current, changes):
    """Returns the current set of each change. This list is the result of apply."""
    return [find(current, after["name"], after["type"]) for _, after in changes]
