// SPDX-License-Identifier: Apache-2.0

// Tests of the platform against its simulator: npm test
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { afterEach, beforeEach, test } = require('node:test');
const mail = require('../tenantry-mail.js');
const provider = require('../provider.js');
const simulator = require('../simulator.js');

const REDIRECT = 'https://service.test/callback';
const call = { secondsLeft: () => 60, requestID: 'request-1', hosts: [] };

let server;
let ready;

const connect = (settings, token = simulator.TOKEN) => provider.connect({ settings: { ...ready.settings, ...settings }, secrets: { api_token: token } });

async function control(method, path, body) {
  const answer = await fetch(`${ready.url}/_control${path}`, { method, body: JSON.stringify(body) });
  assert.equal(answer.status, 200);
  return answer.json();
}

// visit submits a page, and returns the query of the redirect.
async function visit(page, username, decision = 'accept') {
  const answer = await fetch(page, { method: 'POST', redirect: 'manual', body: new URLSearchParams({ username, decision }) });
  return answer.headers.get('location').slice(REDIRECT.length + 1);
}

// connected returns a tenant whose administrator has agreed, and whose mail server is ready.
async function connected() {
  const { tenant_id: id, admin } = await control('POST', '/tenants', { name: 'Customer' });
  assert.equal(connect().granted(await visit(connect().consentURL('s-1', REDIRECT), admin)), id);
  const tenant = connect().tenant(call, id);
  assert.deepEqual(await tenant.bootstrap(), { status: 'ready', message: 'the mail server is ready' });
  return { id, admin, tenant };
}

// refused checks the outcome of a call. The cause of a refusal is an error code of the API.
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

test('an administrator signs in once', async () => {
  const { id, admin } = await connected();
  const signIn = { tenant: id, state: 's-2', nonce: 'n-1', verifier: 'v-1', redirect: REDIRECT };
  const signedIn = async (username) => new URLSearchParams(await visit(connect().signInURL(signIn), username)).get('code');
  const code = await signedIn(admin);
  assert.deepEqual(await connect().administrator(call, signIn, code), { tenant: id, address: admin, name: 'admin' });
  await refused({ kind: 'refused', cause: 'login_refused' }, connect().administrator(call, signIn, code));
  for (const change of [{ nonce: 'n-2' }, { tenant: 'other' }]) {
    await refused({ kind: 'refused', cause: 'other_login' }, connect().administrator(call, { ...signIn, ...change }, await signedIn(admin)));
  }
  await refused({ kind: 'refused', cause: 'login_refused' }, connect().administrator(call, { ...signIn, verifier: 'v-2' }, await signedIn(admin)));
  await refused({ kind: 'refused', cause: 'role' }, connect().administrator(call, signIn, await signedIn('member@customer.test')));
});

test('a declined and an invalid consent are refused', async () => {
  const { admin } = await control('POST', '/tenants', {});
  const declined = await visit(connect().consentURL('s-1', REDIRECT), admin, 'deny');
  assert.throws(() => connect().granted(declined), { code: 'consent_declined' });
  for (const query of ['', 'state=s-1&tenant=no-id', 'tenant=00000000-0000-4000-8000-000000000001']) {
    assert.throws(() => connect().granted(query), { code: 'invalid_request' });
  }
});

test('nothing works without the consent and the role', async () => {
  const { id, tenant } = await connected();
  assert.equal((await tenant.profile()).name, 'Customer');
  await control('POST', `/tenants/${id}/revoke`, { what: 'exchange_role' });
  await refused({ kind: 'refused', cause: 'no_role' }, tenant.rules());
  await control('POST', `/tenants/${id}/revoke`, { what: 'consent' });
  await refused({ kind: 'refused', cause: 'no_consent' }, tenant.profile());
});

test('a domain without its record is not verified', async () => {
  const { tenant } = await connected();
  const domain = { name: 'customer.test', verified: false, default: false, mail_enabled: false };
  for (let i = 0; i < 2; i += 1) assert.deepEqual(await tenant.addDomain(domain.name), domain);
  const [proof] = (await tenant.records(domain.name)).verification;
  assert.equal(proof.type, 'TXT');
  await refused({ kind: 'refused', cause: 'domain_not_proven' }, tenant.verifyDomain(domain.name));
  await refused({ kind: 'not_ready', cause: 'not_ready' }, tenant.createMailbox('Ann Lee', 'ann.lee@customer.test'));
  for (let i = 0; i < 2; i += 1) await tenant.removeDomain(domain.name);
  assert.deepEqual(await tenant.domains(), []);
});

test('a rule blocks its mailboxes', async () => {
  const { id, tenant } = await connected();
  const name = mail.ruleName('customer.test');
  const blocked = async () => (await control('GET', `/tenants/${id}`)).rules;
  assert.equal((await tenant.ensureRule(name, ['a@customer.test'])).made, true);
  assert.deepEqual(await blocked(), [{ name, enabled: false, blocks: [] }]);
  for (const written of [true, false]) assert.equal((await tenant.block(name, ['a@customer.test'])).written, written);
  assert.deepEqual(await blocked(), [{ name, enabled: true, blocks: ['a@customer.test'] }]);
  assert.equal((await tenant.block(name, [])).enabled, false);
  await control('POST', `/tenants/${id}/rules`, { name: 'by hand', enabled: true, senders: [] });
  await tenant.removeRules();
  assert.deepEqual((await blocked()).map((r) => r.name), ['by hand']);
});

test('the name of a rule says its scope', () => {
  const long = `${'a'.repeat(70)}.customer.test`;
  assert.equal(mail.ruleName(''), 'tenantry-block-tenantwide');
  assert.equal(mail.ruleName('Customer.test'), 'tenantry-block-customer.test');
  assert.equal(mail.ruleName(long).length, 64);
  for (const scope of ['', 'customer.test', long]) assert.equal(mail.isRuleName(mail.ruleName(scope)), true);
  for (const name of ['by hand', 'tenantry-block-', 'tenantry-block-word', 'tenantry-block-a.b c']) assert.equal(mail.isRuleName(name), false);
});

test('a Retry-After holds back all calls of the token', async () => {
  const { tenant } = await connected();
  await control('POST', '/faults', { kind: 'status', status: 429, retry_after: 3600, times: 1 });
  await refused({ kind: 'throttled', cause: 'status 429' }, tenant.profile());
  await refused({ kind: 'throttled', cause: 'held_back' }, connect().check(call));
});

test('lost answers are unknown, and an unreachable platform is down', async () => {
  const { tenant } = await connected();
  for (const kind of ['drop_before', 'drop_after']) {
    await control('POST', '/faults', { kind, times: 1, writes_only: true });
    await refused({ kind: 'unknown', cause: 'connection_cut' }, tenant.addDomain('customer.test'));
  }
  await refused({ kind: 'down', cause: 'unreachable' }, connect({ api_url: 'http://127.0.0.1:1' }).check(call));
});

test('settings and secrets are checked', async () => {
  for (const [settings, token] of [[{ api_url: 'ftp://x' }, 't'], [{ login_url: '' }, 't'], [{}, ''], [{}, 'a\r\nb']]) {
    assert.throws(() => connect(settings, token), { code: 'invalid_request' });
  }
  await refused({ kind: 'refused', cause: 'status 401' }, connect({}, 'guessed').check(call));
});

test('the simulator keeps its state', async () => {
  const data = fs.mkdtempSync(path.join(os.tmpdir(), 'simulator-'));
  try {
    await restart(data);
    const { id, tenant } = await connected();
    await tenant.addDomain('customer.test');
    await restart(data);
    assert.deepEqual((await connect().tenant(call, id).domains()).map((d) => d.name), ['customer.test']);
  } finally {
    fs.rmSync(data, { recursive: true });
  }
});
