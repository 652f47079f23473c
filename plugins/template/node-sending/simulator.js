// SPDX-License-Identifier: Apache-2.0

// A simulated Example: its API on a loopback address, for tests and for `tenantry dev`.
//
//     GET    /v1/workspaces                {"workspaces": [{id, name}]}
//     GET    /v1/accounts?like=&page=      {"page", "accounts": [account], "more"}
//     DELETE /v1/accounts/{id}             {"removed": true}
//     POST   /v1/links                     starts a sign-in: a link
//     GET    /v1/links/{id}                the link
//
// An account has id, address, name, state and revision. A link has id, url, state, address and
// until. The README lists the control calls.
'use strict';

const crypto = require('node:crypto');
const { Answer, Refusal, Simulator } = require('./tenantry-simulator.js');

const KEY = 'simulated-key-of-example';
const WORKSPACES = [{ id: 'ws-1', name: 'Workspace' }];
const PAGE_SIZE = 100;
const LINK_LIFE = 10 * 60 * 1000; // milliseconds

// start starts the simulator, and returns its ready line.
async function start(options) {
  const url = await new Platform().listen(options);
  return {
    provider: options.name, url, control: [],
    settings: { base_url: url + '/v1', auth_hosts: 'login.example.com, ' + new URL(url).host }, secrets: { api_key: KEY }, sending: { api_key: KEY },
  };
}

// Platform has keys by their texts, accounts, and links by their ids.
class Platform extends Simulator {
  kept = ['keys', 'accounts', 'links'];

  keys = new Map([[KEY, { workspaces: WORKSPACES }]]);

  accounts = [];

  links = new Map();

  // isWrite returns false for the page on which a person signs a mailbox in.
  isWrite({ method, path }) {
    return method !== 'GET' && path !== '/authorize';
  }

  api(request) {
    if (request.path === '/authorize') return this.page(request);
    const { method, names: [, collection, id], query, headers, bearer } = request;
    const key = this.keys.get(bearer());
    if (!key) throw new Refusal(401, 'the key is not valid');
    if (key.unpaid) throw new Refusal(402, 'the plan has ended');
    const wanted = headers['x-workspace'];
    const workspace = key.workspaces.find((w) => !wanted || w.id === wanted)?.id; // the first is the default
    if (!workspace && (wanted || collection !== 'workspaces')) throw new Refusal(403, 'the key does not reach this workspace');
    switch (`${method} ${collection}`) {
      case 'GET workspaces': return { workspaces: key.workspaces };
      case 'GET accounts': return this.list(workspace, query);
      case 'DELETE accounts': return this.remove(workspace, id);
      case 'POST links': return this.startSignIn(workspace);
      case 'GET links': return show(this.link(id), this.now());
      default: throw new Refusal(404, 'there is no such path');
    }
  }

  // list returns one page of accounts. With the parameter `like`, it lists only the accounts whose
  // address contains this text.
  list(workspace, query) {
    const like = (query.get('like') ?? '').toLowerCase();
    const page = Number(query.get('page'));
    if (!Number.isInteger(page) || page < 0) throw new Refusal(400, 'the page is a number');
    const found = this.accounts.filter((a) => a.workspace === workspace && a.address.toLowerCase().includes(like));
    const end = (page + 1) * PAGE_SIZE;
    return { page, accounts: found.slice(end - PAGE_SIZE, end).map(({ workspace: _, ...account }) => account), more: end < found.length };
  }

  remove(workspace, id) {
    const account = this.find(workspace, id);
    if (!account) throw new Refusal(404, 'no such account');
    this.accounts = this.accounts.filter((a) => a !== account);
    return { removed: true };
  }

  // find returns an account. Its id is its address in lower case.
  find(workspace, address) {
    return this.accounts.find((a) => a.workspace === workspace && a.id === address.toLowerCase());
  }

  // put creates or changes an account.
  put(workspace, address, members) {
    let account = this.find(workspace, address);
    if (account) {
      account.revision += 1;
    } else {
      account = { workspace, id: address.toLowerCase(), address, name: nameOf(address), state: 'ok', revision: 0 };
      this.accounts.push(account);
    }
    Object.assign(account, members);
  }

  startSignIn(workspace) {
    const id = crypto.randomUUID();
    const link = { id, url: `${this.url}/authorize?state=${id}`, state: 'pending', address: '', until: new Date(this.now().getTime() + LINK_LIFE), workspace };
    this.links.set(id, link);
    return show(link, this.now());
  }

  link(id) {
    if (!this.links.has(id)) throw new Refusal(404, 'no such link');
    return this.links.get(id);
  }

  // page is the page behind a link, on which a person signs a mailbox in. A link works once.
  page({ method, query, text }) {
    const link = this.links.get(query.get('state'));
    if (!link || show(link, this.now()).state !== 'pending') return html('This link does not work any more. Ask for a new one.', 400);
    const form = new URLSearchParams(text);
    const address = (form.get('username') ?? '').trim();
    if (method === 'POST' && form.get('decision') === 'deny') {
      link.state = 'denied';
      return html('You declined, so nothing was connected.');
    }
    if (method === 'POST' && form.get('decision') === 'accept' && /^[^@\s]+@[^@\s]+$/.test(address)) {
      Object.assign(link, { state: 'done', address });
      this.put(link.workspace, address, { state: 'ok' });
      return html('You can close this window.');
    }
    return html(FORM, method === 'POST' ? 400 : 200);
  }

  control(request) {
    const { method, names: [collection, id, action], query, json } = request;
    const workspace = query.get('workspace_id') ?? WORKSPACES[0].id;
    switch (`${method} ${collection} ${action ?? ''}`.trim()) {
      case 'GET suite': return SUITE;
      case 'GET accounts': return this.accounts.filter((a) => a.workspace === workspace);
      case 'PUT accounts': return this.put(workspace, id, only(json(), 'state', 'name'));
      case 'DELETE accounts': return this.remove(workspace, id);
      case 'PUT keys': return void this.keys.set(id, { workspaces: [], ...only(json(), 'workspaces', 'unpaid') });
      case 'POST links expire': return void Object.assign(this.link(id), { until: this.now() });
      default: return super.control(request);
    }
  }
}

// only returns the body of a control call. It refuses a body with other members.
function only(body, ...members) {
  if (!Object.keys(body).every((m) => members.includes(m))) throw new Refusal(400, `the members are ${members.join(', ')}`);
  return body;
}

// show returns a link as the API shows it.
function show({ workspace, ...link }, now) {
  return link.state === 'pending' && link.until <= now ? { ...link, state: 'expired' } : link;
}

// nameOf returns the name of the person with an address: Ann Lee for ann.lee@example.com.
const nameOf = (address) => address.split('@')[0].toLowerCase().replaceAll(/[._+-]+/g, ' ').replaceAll(/(^| )[a-z]/g, (initial) => initial.toUpperCase()).trim();

// html returns a page.
const html = (content, status = 200) => new Answer(
  `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Example</title></head><body><h1>Example</h1><p>${content}</p></body></html>`, { status });

const FORM = `<form method="post"><label>Sign in as <input name="username" type="email" required></label>
<button name="decision" value="accept">Accept</button> <button name="decision" value="deny" formnovalidate>Cancel</button></form>`;

// SUITE tells `tenantry plugin test` how to use this simulator.
const SUITE = {
  address: 'address', name: { name: '$name' },
  states: [
    { state: 'connected', members: { state: 'ok' } },
    { state: 'failed', has_error: true, members: { state: 'failed' } },
    { state: 'other', members: { state: 'strange' } },
  ],
  sessions: true, declines: true,
  expire: { method: 'POST', path: '/links/$session/expire' },
  unpaid: { method: 'PUT', path: `/keys/${KEY}`, body: { workspaces: WORKSPACES, unpaid: true } },
  workspaces: {
    id: 'ws-%d', values: { api_key: 'key-reaching' },
    calls: [{ method: 'PUT', path: '/keys/key-reaching', body: { workspaces: '$workspaces' } }],
  },
};

module.exports = { KEY, start };
