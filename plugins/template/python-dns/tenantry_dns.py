# SPDX-License-Identifier: Apache-2.0
"""The rules that hold for every DNS provider. Authors do not change this file.

A record set is a dict with name, type, ttl and values, which are bytes. A set without values does
not exist. A change is a pair of sets: the one that the plan was made from, and the desired one.
"""

from tenantry_plugin import Outcome


def methods():
    """Returns the calls of the service DNSProvider."""
    from plugins.proto import dns_pb2 as pb

    def zone(message):
        return {"id": message.id, "name": message.name, "name_servers": list(message.name_servers), "idle": message.idle}

    def record_set(message):
        return {"name": message.name, "type": message.type, "ttl": message.ttl, "values": list(message.values)}

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
    """Returns the outcome for a zone that the credential does not reach."""
    return Outcome("refused", "zone_not_found", "the DNS provider shows no such zone to this credential", "provider_error")


def changed():
    """Returns the outcome for a write that was refused because the zone has changed since the plan."""
    return Outcome("refused", "zone_changed", "the zone changed since it was planned; nothing was written", "provider_error")


def find(sets, name, kind):
    """Returns the set with a name and type, or an empty one."""
    for s in sets:
        if s["type"] == kind and s["name"].lower() == name.lower():
            return s
    return {"name": name, "type": kind, "ttl": 0, "values": []}


def same(a, b):
    """Reports whether two sets have the same values, in any order."""
    return sorted(a["values"]) == sorted(b["values"])


def check_changes(zone, changes):
    """Raises an outcome for changes that no plan contains, such as one outside the zone."""
    zone, seen = zone.lower(), set()
    for before, after in changes:
        name, kind = after["name"].lower(), after["type"]
        if ((name, kind) != (before["name"].lower(), before["type"]) or (name, kind) in seen
                or name != zone and not name.endswith("." + zone)
                or kind in ("", "SOA") or kind == "NS" and name == zone
                or kind == "CNAME" and len(after["values"]) > 1):
            raise Outcome("refused", "change_not_allowed", "this change of the zone is not allowed", "provider_error")
        seen.add((name, kind))


def outstanding(current, changes):
    """Returns the desired sets that the current sets of the zone still lack.

    Raises changed() if a set is neither as planned nor as desired, or if a CNAME would not be alone.
    """
    missing, after_all = [], {(s["name"].lower(), s["type"]): s for s in current}
    for before, after in changes:
        now = find(current, after["name"], after["type"])
        if not same(now, after) and not same(now, before):
            raise changed()
        if not same(now, after):
            # A plan that keeps the TTL gets the TTL that the provider has.
            keeps = now["values"] and before["ttl"] == after["ttl"]
            missing.append({**after, "ttl": now["ttl"] if keeps else after["ttl"]})
        after_all[after["name"].lower(), after["type"]] = after
    for _, after in changes:
        others = [s for (name, kind), s in after_all.items()
                  if name == after["name"].lower() and kind != after["type"] and s["values"]]
        if after["values"] and any("CNAME" in (s["type"], after["type"]) for s in others):
            raise changed()
    return missing


def sets_after(current, changes):
    """Returns the current set of each change: the result of apply."""
    return [find(current, after["name"], after["type"]) for _, after in changes]
