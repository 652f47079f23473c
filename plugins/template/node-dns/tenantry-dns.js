// SPDX-License-Identifier: Apache-2.0

// The rules that hold for every DNS provider. Authors do not change this file.
//
// A record set is an object with name, type, ttl and values, which are Buffers. A set without values
// does not exist. A change has the set `before` that the plan was made from, and the desired set
// `after`.
'use strict';

const { Outcome } = require('./tenantry-plugin.js');

// service is the gRPC service of a DNS provider. Each method calls a method of the provider.
const service = {
  file: 'plugins/proto/dns.proto',
  name: 'tenantry.plugin.v1.DNSProvider',
  methods: {
    Check: async (provider, call) => ({ zones: await provider.check(call) }),
    Zone: (provider, call, { name }) => provider.zone(call, name),
    Records: async (provider, call, { zone }) => ({ sets: await provider.records(call, zone) }),
    Apply: async (provider, call, { zone, changes }) => ({ sets: await provider.apply(call, zone, changes.map(fill)) }),
  },
};

// fill returns a change in which both sets exist.
function fill({ before, after }) {
  const empty = { name: '', type: '', ttl: 0, values: [] };
  return { before: { ...empty, ...before }, after: { ...empty, ...after } };
}

const refused = (cause, detail) => new Outcome('refused', cause, detail, { code: 'provider_error' });

// noZone returns the outcome for a zone that the credential does not reach.
const noZone = () => refused('zone_not_found', 'the DNS provider shows no such zone to this credential');

// changed returns the outcome for a write that was refused because the zone has changed since the plan.
const changed = () => refused('zone_changed', 'the zone changed since it was planned; nothing was written');

const sameName = (a, b) => a.toLowerCase() === b.toLowerCase();

// find returns the set with a name and type, or an empty one.
function find(sets, name, type) {
  return sets.find((s) => s.type === type && sameName(s.name, name)) ?? { name, type, ttl: 0, values: [] };
}

// same reports whether two sets have the same values, in any order.
function same(a, b) {
  const sorted = (set) => set.values.map((value) => value.toString('hex')).sort().join();
  return sorted(a) === sorted(b);
}

// checkChanges throws an outcome for changes that no plan contains, such as one outside the zone.
function checkChanges(zone, changes) {
  const seen = new Set();
  for (const { before, after } of changes) {
    const name = after.name.toLowerCase();
    const apex = sameName(name, zone);
    const key = `${name} ${after.type}`;
    if (!sameName(before.name, name) || before.type !== after.type || seen.has(key) ||
      (!apex && !name.endsWith('.' + zone.toLowerCase())) ||
      after.type === '' || after.type === 'SOA' || (after.type === 'NS' && apex) ||
      (after.type === 'CNAME' && after.values.length > 1)) {
      throw refused('change_not_allowed', 'this change of the zone is not allowed');
    }
    seen.add(key);
  }
}

// outstanding returns the desired sets that the current sets of the zone still lack. It throws
// changed() if a set is neither as planned nor as desired, or if a CNAME would not be alone.
function outstanding(current, changes) {
  const missing = [];
  for (const { before, after } of changes) {
    const now = find(current, after.name, after.type);
    if (same(now, after)) continue;
    if (!same(now, before)) throw changed();
    // A plan that keeps the TTL gets the TTL that the provider has.
    const keeps = now.values.length > 0 && before.ttl === after.ttl;
    missing.push({ ...after, ttl: keeps ? now.ttl : after.ttl });
  }
  const desired = changes.map(({ after }) => after);
  const unchanged = current.filter((s) =>
    !desired.some((d) => d.type === s.type && sameName(d.name, s.name)));
  for (const after of desired) {
    const others = [...desired, ...unchanged].filter((s) => s.values.length > 0 && s.type !== after.type && sameName(s.name, after.name));
    if (after.values.length > 0 && others.some((s) => s.type === 'CNAME' || after.type === 'CNAME')) throw changed();
  }
  return missing;
}

// setsAfter returns the current set of each change: the result of apply.
const setsAfter = (current, changes) => changes.map(({ after }) => find(current, after.name, after.type));

module.exports = { service, noZone, changed, find, same, checkChanges, outstanding, setsAfter };
