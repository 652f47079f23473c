// SPDX-License-Identifier: Apache-2.0

// The rules that hold for every DNS provider. Authors do not change this file.
//
// A record set is an object with name, type, ttl and values. Each value is a Buffer. A set without
// values stands for a set that does not exist. A set of records() also has veiled: true if the
// provider proxies or flattens it, so that name servers return other records. A change has the set
// `before`, as it was when the change was planned, and the desired set `after`.
'use strict';

const { setTimeout: sleep } = require('node:timers/promises');
const { Outcome, brokenAnswer, unknownEffect } = require('./tenantry-plugin.js');
const { plainName } = require('./tenantry-zonefile.js');

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

// noZone returns the outcome for a zone to which the credential has no access.
const noZone = () => refused('zone_not_found', 'the DNS provider shows no such zone to this credential');

// changed returns the outcome for a write that was refused because the zone has changed since the
// plan.
const changed = () => refused('zone_changed', 'the zone has changed since the write was planned; nothing was written');

// overlapped returns the outcome for a write that was made although someone else changed the zone
// between the last read and the write. Throw this outcome only if the provider's answer proves
// this, for example by a serial that has increased by two. The work on the domain then stops until
// a person has checked the zone.
const overlapped = () => new Outcome('broken', 'zone_changed_during_write', 'the zone was changed by someone else during the write, so a value may be lost');

const sameName = (a, b) => plainName(a) === plainName(b);

// find returns the set with a name and type, or a set without values.
function find(sets, name, type) {
  return sets.find((s) => s.type === type && sameName(s.name, name)) ?? { name, type, ttl: 0, values: [] };
}

// same reports whether two sets have the same values, in any order.
function same(a, b) {
  const sorted = (set) => set.values.map((value) => value.toString('hex')).sort().join();
  return sorted(a) === sorted(b);
}

// checkChanges throws an outcome for changes that no plan contains, such as a change outside the
// zone.
function checkChanges(zone, changes) {
  const seen = new Set();
  for (const { before, after } of changes) {
    const name = plainName(after.name);
    const apex = sameName(name, zone);
    const key = `${name} ${after.type}`;
    if (!sameName(before.name, name) || before.type !== after.type || seen.has(key) ||
      (!apex && !name.endsWith('.' + plainName(zone))) ||
      !/^[A-Z0-9-]+$/.test(after.type) || // types are compared exactly
      after.type === 'SOA' || (after.type === 'NS' && apex) ||
      (after.type === 'CNAME' && after.values.length > 1)) {
      throw refused('change_not_allowed', 'this change of the zone is not allowed');
    }
    seen.add(key);
  }
}

// outstanding returns the desired sets that the zone does not have yet. If only `before` is veiled,
// the change also ends the proxying or flattening. The desired set is then returned even if its
// values stay the same. outstanding throws changed() if a current set equals neither set of its
// change, or if a CNAME would share its name with other records.
function outstanding(current, changes) {
  const missing = [];
  for (const { before, after } of changes) {
    const now = find(current, after.name, after.type);
    const unveils = now.veiled && before.veiled && !after.veiled;
    if (same(now, after) && !unveils) continue;
    if (!same(now, after) && !same(now, before)) throw changed();
    // If a change keeps the TTL, the set keeps the TTL that the provider has.
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

// checkWritten returns the sets of a zone after a write. It throws an outcome if they lack a set
// that was written.
function checkWritten(sets, written) {
  if (!written.every((s) => same(find(sets, s.name, s.type), s))) throw brokenAnswer('missing_after_write');
  return sets;
}

// readBack reads a zone after a write, and returns its sets like checkWritten. It is for providers
// whose answer to a write does not have the sets of the zone. If the read fails, the write may have
// changed the zone, so the outcome never says that nothing changed.
async function readBack(provider, call, zone, written) {
  let sets;
  try {
    sets = await provider.records(call, zone);
  } catch (error) {
    throw ['refused', 'not_ready', 'throttled', 'down'].includes(error.kind) ? unknownEffect('not_read_back') : error;
  }
  return checkWritten(sets, written);
}

// holders maps a zone to a promise that resolves when no call holds the zone's lock or waits for
// the lock.
const holders = new Map();

// hold runs a function while the call holds the lock of a zone, and returns its result. The
// function reads and writes the zone. hold is for providers whose writes cannot be conditional on
// an unchanged zone. It serializes the writes of this process. hold fails with an outcome if the
// call does not get the lock before its deadline.
async function hold(call, zoneID, readAndWrite) {
  const before = holders.get(zoneID);
  let release;
  const held = new Promise((resolve) => { release = resolve; });
  const last = Promise.all([before, held]).then(() => {
    if (holders.get(zoneID) === last) holders.delete(zoneID);
  });
  holders.set(zoneID, last);
  try {
    await beforeDeadline(call, before);
    return await readAndWrite();
  } finally {
    release();
  }
}

// beforeDeadline waits for a promise. It fails with an outcome if the deadline of the call passes
// first.
async function beforeDeadline(call, promise) {
  const timer = new AbortController();
  const ended = Symbol('ended');
  const end = sleep(Math.max(0, call.secondsLeft() * 1000), ended, { signal: timer.signal }).catch(() => {});
  const first = await Promise.race([promise, end]);
  timer.abort();
  if (first === ended) throw unknownEffect('no_answer');
}

// setsAfter returns the current set of each change. This list is the result of apply.
const setsAfter = (current, changes) => changes.map(({ after }) => find(current, after.name, after.type));

module.exports = { service, noZone, changed, overlapped, find, same, checkChanges, outstanding, checkWritten, readBack, hold, setsAfter };
