// SPDX-License-Identifier: Apache-2.0

// Tests of the platform against its simulator: npm test
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { afterEach, beforeEach, test } = require('node:test');
const provider = require('../provider.js');
const sending = require('../tenantry-sending.js');
const simulator = require('../simulator.js');

const ANN = 'ann.lee@customer.test';
const call = { secondsLeft: () => 60, requestID: 'request-1', hosts: [] };

let server;
let ready;

const connect = (settings, key = simulator.KEY) => provider.connect({ settings: { ...ready.settings, ...settings }, secrets: { api_key: key } });

async function control(method, path, body) {
  const answer = await fetch(`${ready.url}/_control${path}`, { method, body: body && JSON.stringify(body) });
  assert.equal(answer.status, 200);
}

// decide submits the page behind a link, and returns the status of the answer.
async function decide({ url }, decision, username = ANN) {
  return (await fetch(url, { method: 'POST', body: new URLSearchParams({ decision, username }) })).status;
}

const refused = (outcome, promise) => assert.rejects(promise, (error) => {
  assert.deepEqual({ kind: error.kind, cause: error.cause }, outcome);
  return true;
});

function stop() {
  server.closeAllConnections();
  server.close();
}

// restart stops the simulator and starts another with a folder for its state.
async function restart(data) {
  stop();
  ready = await start(data);
}

const start = (data) => simulator.start({ name: provider.description.name, port: 0, data, onServer: (s) => { server = s; } });

beforeEach(async () => {
  ready = await start();
});

afterEach(stop);

test('a person signs in twice', async () => {
  const session = await connect().startSignIn(call, ANN);
  assert.equal(session.expires_at > new Date(), true);
  assert.deepEqual(await connect().signIn(call, session.id), { state: 'pending' });
  assert.equal(await connect().account(call, ANN), undefined);
  assert.equal(await decide(session, 'accept'), 200);
  assert.deepEqual(await connect().signIn(call, session.id), { state: 'succeeded', address: ANN });
  const first = await connect().account(call, ANN.toUpperCase());
  assert.deepEqual(first, { id: ANN, address: ANN, name: 'Ann Lee', state: 'connected', has_error: false, stamp: '0' });
  assert.equal(await decide(session, 'accept'), 400); // a link works once
  assert.equal(await decide(await connect().startSignIn(call, ANN), 'accept'), 200);
  assert.deepEqual(await connect().account(call, ANN), { ...first, stamp: '1' });
});

test('a session is declined, expires, or is not known', async () => {
  const session = await connect().startSignIn(call, ANN);
  assert.equal(await decide(session, 'accept', 'nobody'), 400);
  assert.equal(await decide(session, 'deny'), 200);
  assert.deepEqual(await connect().signIn(call, session.id), { state: 'failed', reason: 'access_denied' });
  const late = await connect().startSignIn(call, ANN);
  await control('POST', '/clock', { now: new Date(Date.now() + 11 * 60 * 1000) });
  assert.equal(await decide(late, 'accept'), 400);
  for (const id of [late.id, 'unknown']) assert.deepEqual(await connect().signIn(call, id), { state: 'expired' });
});

test('an account is on a second page', async () => {
  for (let i = 0; i < 100; i += 1) await control('PUT', `/accounts/n${i}-${ANN}`, {});
  await control('PUT', `/accounts/${ANN}`, {});
  assert.equal((await connect().account(call, ANN)).address, ANN);
});

test('accounts are listed page by page', async () => {
  for (let i = 0; i < 101; i += 1) await control('PUT', `/accounts/user${i}@customer.test`, { state: i === 100 ? 'failed' : 'ok' });
  const first = await connect().accounts(call, '');
  assert.deepEqual([first.accounts.length, first.next], [100, '1']);
  const second = await connect().accounts(call, first.next);
  assert.deepEqual([second.accounts.map((a) => a.state), second.next], [['failed'], '']);
});

test('an account is removed, and removed again', async () => {
  await control('PUT', `/accounts/${ANN}`, {});
  for (let i = 0; i < 2; i += 1) await connect().remove(call, ANN);
  assert.equal(await connect().account(call, ANN), undefined);
});

test('only workspaces of the key are used', async () => {
  assert.deepEqual(await connect().check(call), { workspaces: [{ id: 'ws-1', name: 'Workspace' }] });
  assert.equal((await connect({ workspace_id: 'ws-1' }).accounts(call, '')).accounts.length, 0);
  await refused({ kind: 'refused', cause: 'status 403' }, connect({ workspace_id: 'ws-2' }).accounts(call, ''));
});

test('a wrong key and an ended plan are refused', async () => {
  await refused({ kind: 'refused', cause: 'status 401' }, connect({}, 'guessed').check(call));
  await control('PUT', `/keys/${simulator.KEY}`, { unpaid: true });
  await refused({ kind: 'refused', cause: 'plan_inactive' }, connect().check(call));
});

test('a link to a host that is not allowed is not returned', async () => {
  await refused({ kind: 'broken', cause: 'no_link_to_an_allowed_host' }, connect({ auth_hosts: 'login.example.com' }).startSignIn(call, ANN));
  const hosts = ['login.acme.test', '127.0.0.1:8080'];
  for (const link of ['https://login.acme.test/x', 'http://127.0.0.1:8080/x']) assert.equal(sending.signInLink(link, hosts), true);
  for (const link of ['http://login.acme.test/x', 'https://login.acme.test.other.test/x', 'https://u@login.acme.test/x', 'javascript:x', 7]) {
    assert.equal(sending.signInLink(link, hosts), false);
  }
});

test('a Retry-After holds back all calls of the key', async () => {
  await control('POST', '/faults', { kind: 'status', status: 429, retry_after: 3600, times: 1 });
  await refused({ kind: 'throttled', cause: 'status 429' }, connect().check(call));
  await refused({ kind: 'throttled', cause: 'held_back' }, connect({ workspace_id: 'ws-1' }).accounts(call, ''));
});

test('lost answers are unknown, and an unreachable platform is down', async () => {
  await control('PUT', `/accounts/${ANN}`, {});
  for (const kind of ['drop_before', 'drop_after']) {
    await control('POST', '/faults', { kind, times: 1, writes_only: true });
    await refused({ kind: 'unknown', cause: 'connection_cut' }, connect().remove(call, ANN));
  }
  await refused({ kind: 'down', cause: 'unreachable' }, connect({ base_url: 'http://127.0.0.1:1' }).check(call));
});

test('settings and secrets are checked', () => {
  for (const [settings, key] of [[{ base_url: 'ftp://x' }, 'k'], [{}, ''], [{}, 'a\r\nb'], [{ workspace_id: 'a\nb' }, 'k']]) {
    assert.throws(() => connect(settings, key), { code: 'invalid_request' });
  }
});

test('the simulator keeps its state', async () => {
  const data = fs.mkdtempSync(path.join(os.tmpdir(), 'simulator-'));
  try {
    await restart(data);
    const session = await connect().startSignIn(call, ANN);
    await decide(session, 'accept');
    await restart(data);
    assert.equal((await connect().account(call, ANN)).state, 'connected');
    assert.equal((await connect().signIn(call, session.id)).state, 'succeeded');
  } finally {
    fs.rmSync(data, { recursive: true });
  }
});
