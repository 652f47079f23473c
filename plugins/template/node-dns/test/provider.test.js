// SPDX-License-Identifier: Apache-2.0

// Tests of the provider against its simulator: npm test
'use strict';

const assert = require('node:assert/strict');
const { after, before, beforeEach, test } = require('node:test');
const dns = require('../tenantry-dns.js');
const provider = require('../provider.js');
const simulator = require('../simulator.js');

const ZONE = 'customer.test';
const call = { secondsLeft: () => 60, requestID: 'request-1', hosts: [] };
const recordSet = (type, ...values) => ({ name: ZONE, type, ttl: 300, values: values.map((v) => Buffer.from(v)) });

let server;
let ready;
let zone;

const connect = (token = simulator.TOKEN) => provider.connect({ settings: ready.settings, secrets: { api_token: token } });

async function control(method, path, body = {}) {
  const answer = await fetch(`${ready.url}/_control${path}`, { method, body: JSON.stringify(body) });
  assert.equal(answer.status, 200);
}

const refused = (outcome, promise) => assert.rejects(promise, (error) => {
  assert.deepEqual({ kind: error.kind, cause: error.cause }, outcome);
  return true;
});

before(async () => {
  ready = await simulator.start({ name: provider.description.name, port: 0, onServer: (s) => { server = s; } });
});

after(() => {
  server.closeAllConnections();
  server.close();
});

beforeEach(async () => {
  await control('PUT', `/zones/${ZONE}`);
  await control('PUT', `/zones/${ZONE}/sets`, []);
  zone = await connect().zone(call, ZONE);
});

test('a set is created, replaced and removed', async () => {
  const steps = [recordSet('TXT'), recordSet('TXT', 'one'), recordSet('TXT', 'one', 'two'), recordSet('TXT')];
  for (let i = 1; i < steps.length; i += 1) {
    const [set] = await connect().apply(call, zone, [{ before: steps[i - 1], after: steps[i] }]);
    assert.deepEqual(set.values, steps[i].values);
  }
  assert.deepEqual(await connect().records(call, zone), []);
});

test('a zone that changed is not written', async () => {
  await control('PUT', `/zones/${ZONE}/sets`, [{ name: ZONE, type: 'TXT', ttl: 60, values: ['by hand'] }]);
  await refused({ kind: 'refused', cause: 'zone_changed' }, connect().apply(call, zone, [{ before: recordSet('TXT'), after: recordSet('TXT', 'one') }]));
});

test('a CNAME stays alone', async () => {
  await control('PUT', `/zones/${ZONE}/sets`, [{ name: ZONE, type: 'CNAME', ttl: 60, values: ['other.test'] }]);
  await refused({ kind: 'refused', cause: 'zone_changed' }, connect().apply(call, zone, [{ before: recordSet('TXT'), after: recordSet('TXT', 'one') }]));
});

test('changes outside the zone are refused', async () => {
  for (const [name, type] of [[ZONE, 'NS'], [ZONE, 'SOA'], ['elsewhere.test', 'TXT']]) {
    const set = { name, type, ttl: 60, values: [] };
    const change = { before: set, after: { ...set, values: [Buffer.from('x')] } };
    await refused({ kind: 'refused', cause: 'change_not_allowed' }, connect().apply(call, zone, [change]));
  }
});

test('an unknown zone and a wrong token are refused', async () => {
  await refused({ kind: 'refused', cause: 'zone_not_found' }, connect().zone(call, 'unknown.test'));
  await refused({ kind: 'refused', cause: 'status 401' }, connect('guessed').check(call));
});

test('a Retry-After holds back all calls of the token', async () => {
  const token = `${simulator.TOKEN}-waiting`;
  await control('POST', '/faults', { kind: 'status', status: 429, retry_after: 3600, times: 1 });
  await refused({ kind: 'throttled', cause: 'status 429' }, connect(token).check(call));
  await refused({ kind: 'throttled', cause: 'held_back' }, connect(token).check(call));
  assert.equal(await connect().check(call), 1);
});

test('lost answers are unknown', async () => {
  for (const kind of ['drop_before', 'drop_after']) {
    await control('POST', '/faults', { kind, times: 1, writes_only: true });
    await refused({ kind: 'unknown', cause: 'connection_cut' }, connect().apply(call, zone, [{ before: recordSet('TXT'), after: recordSet('TXT', kind) }]));
    await control('PUT', `/zones/${ZONE}/sets`, []);
  }
});

test('an unreachable provider is down', async () => {
  const unreachable = connect();
  unreachable.url = 'http://127.0.0.1:1';
  await refused({ kind: 'down', cause: 'unreachable' }, unreachable.check(call));
});

test('settings and secrets are checked', () => {
  for (const [url, token] of [['ftp://x', 't'], ['https://x', ''], ['https://x', 'a\r\nb']]) {
    assert.throws(() => provider.connect({ settings: { api_url: url }, secrets: { api_token: token } }), { code: 'invalid_request' });
  }
});

test('other hosts are not called', async () => {
  for (const hosts of [['127.0.0.1'], ['*.0.0.1']]) assert.equal(await connect().check({ ...call, hosts }), 1);
  await refused({ kind: 'broken', cause: 'host_not_named' }, connect().check({ ...call, hosts: ['other.test', '*.other.test', ''] }));
});

test('find ignores case', () => {
  assert.deepEqual(dns.find([recordSet('TXT', 'x')], ZONE.toUpperCase(), 'TXT').values, [Buffer.from('x')]);
});
