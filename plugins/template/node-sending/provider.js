// SPDX-License-Identifier: Apache-2.0

// The sending platform Example: its description, and the calls of its API. Authors change this
// file.
'use strict';

const crypto = require('node:crypto');
const sending = require('./tenantry-sending.js');
const { member, request } = require('./tenantry-http.js');
const { brokenAnswer, credentialRefused, misconfigured, requestRefused } = require('./tenantry-plugin.js');

const description = {
  name: 'example', kind: 'sending', version: '0.1.0', title: 'Example',
  capabilities: ['microsoft_oauth', 'mailbox_refresh', 'mailbox_disconnect'],
  fields: [
    { name: 'api_key', account: true, required: true, secret: true, default: '', help: 'key of the API' },
    { name: 'workspace_id', account: true, required: false, secret: false, default: '', help: 'id of the workspace; needed if the key has access to several' },
    { name: 'base_url', account: false, required: false, secret: false, default: 'https://api.example.com/v1', help: 'base URL of the API' },
    { name: 'auth_hosts', account: false, required: false, secret: false, default: 'login.microsoftonline.com', help: 'hosts that a sign-in link may lead to, separated by commas' },
  ],
  hosts: ['{base_url}'], // the plugin calls no other hosts
  // The published rate limit. It applies to the sign-ins of all keys together.
  budgets: [{ key: 'egress', limit: 120, window_seconds: 60, only: ['start_sign_in'] }],
};

// connect returns the platform for one call.
function connect({ settings, secrets }) {
  const base = settings.base_url ?? '';
  const workspace = settings.workspace_id ?? '';
  const key = secrets.api_key ?? '';
  const parsed = URL.canParse(base) ? new URL(base) : undefined;
  if (!parsed || !['https:', 'http:'].includes(parsed.protocol) || parsed.username) throw misconfigured('base_url', 'it is not a URL');
  if (!/^[\x20-\x7e]+$/.test(key)) throw misconfigured('api_key', 'it is missing or has invalid characters');
  if (!/^[\x20-\x7e]*$/.test(workspace)) throw misconfigured('workspace_id', 'it has invalid characters');
  return new Platform(base.replace(/\/+$/, ''), key, workspace, (settings.auth_hosts ?? '').split(/[\s,]+/).filter(Boolean));
}

// Platform is the platform, with the key of one call.
class Platform {
  constructor(base, key, workspace, authHosts) {
    Object.assign(this, { base, key, workspace, authHosts });
    this.scope = crypto.createHash('sha256').update(`${base} ${key}`).digest('hex');
  }

  // check returns the workspaces to which the key has access.
  async check(call) {
    const answer = await this.answer(call, 'GET', '/workspaces');
    return { workspaces: member(answer, 'workspaces', 'array').map(toWorkspace) };
  }

  // account returns the account with this address, or undefined. The parameter `like` also finds
  // parts of addresses, so this method compares each address on all pages.
  async account(call, address) {
    for (let page = 0; ; page += 1) {
      const { accounts, more } = await this.page(call, { like: address, page });
      const found = accounts.find((a) => sending.sameAddress(a.address, address));
      if (found || !more) return found;
    }
  }

  // accounts returns one page of all accounts. The cursor is the number of the page.
  async accounts(call, cursor) {
    const { accounts, more } = await this.page(call, { page: cursor });
    return { accounts, next: more ? String(Number(cursor) + 1) : '' };
  }

  // page reads one page. It fails for an answer without the requested page, because an account that
  // is missing from a complete list counts as disconnected.
  async page(call, query) {
    const answer = await this.answer(call, 'GET', '/accounts?' + new URLSearchParams(query));
    const accounts = member(answer, 'accounts', 'array').map(toAccount);
    if (answer.page !== Number(query.page)) throw brokenAnswer('not_the_requested_page'); // an empty cursor stands for page 0
    return { accounts, more: member(answer, 'more', 'boolean') };
  }

  // startSignIn starts a session in which a person signs a mailbox in.
  async startSignIn(call) {
    const link = await this.answer(call, 'POST', '/links');
    if (!sending.signInLink(link.url, this.authHosts)) throw brokenAnswer('no_link_to_an_allowed_host');
    return { id: member(link, 'id', 'string'), url: link.url, expires_at: member(link, 'until', 'date') };
  }

  // signIn returns the progress of a session. An unknown session counts as expired.
  async signIn(call, session) {
    const link = await this.call(call, 'GET', '/links/' + encodeURIComponent(session));
    switch (link ? link.state : 'expired') {
      case 'pending': return { state: 'pending' };
      case 'done': return { state: 'succeeded', address: member(link, 'address', 'string') };
      case 'denied': return { state: 'failed', reason: 'access_denied' };
      case 'expired': return { state: 'expired' };
      default: throw brokenAnswer('unknown_link_state');
    }
  }

  // remove deletes the account with this id. Removing an account that does not exist succeeds.
  async remove(call, id) {
    const answer = await this.call(call, 'DELETE', '/accounts/' + encodeURIComponent(id));
    if (answer && answer.removed !== true) throw brokenAnswer('not_removed');
  }

  // answer does the same as `call`, but fails if the platform does not have the object in the path.
  async answer(call, method, path) {
    const answer = await this.call(call, method, path);
    if (!answer) throw brokenAnswer('status 404');
    return answer;
  }

  // call sends one request, and returns the JSON object in the answer. It returns undefined if the
  // platform does not have the object in the path. It never repeats a request, because the host
  // repeats the calls that can be repeated.
  async call(call, method, path) {
    const headers = { Authorization: `Bearer ${this.key}`, ...(this.workspace ? { 'X-Workspace': this.workspace } : {}) };
    const { status, body } = await request(call, this.scope, method, this.base + path, headers);
    const cause = `status ${status}`;
    // An answer without a JSON object is not from the platform, and says nothing about the key.
    if (typeof body !== 'object' || body === null) throw brokenAnswer(cause);
    switch (status) {
      case 200: return body;
      case 401: case 403: throw credentialRefused(cause);
      case 402: throw sending.planInactive();
      case 404: return undefined;
      case 400: case 409: case 422: throw requestRefused(cause);
      default: throw brokenAnswer(cause);
    }
  }
}

const toWorkspace = (w) => ({ id: member(w, 'id', 'string'), name: member(w, 'name', 'string') });

const STATES = new Map([['ok', 'connected'], ['failed', 'failed']]);

// toAccount converts an account of the API. Its revision grows with each sign-in.
function toAccount(a) {
  const state = STATES.get(member(a, 'state', 'string')) ?? 'other';
  return {
    id: member(a, 'id', 'string'), address: member(a, 'address', 'string'), name: member(a, 'name', 'string'),
    state, has_error: state === 'failed', stamp: String(member(a, 'revision', 'number')),
  };
}

module.exports = { description, connect };
