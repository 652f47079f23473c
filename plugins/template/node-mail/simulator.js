// SPDX-License-Identifier: Apache-2.0

// A simulated Example: its API on a loopback address, its pages for people, and the control calls
// of `tenantry plugin test` and `tenantry dev`. OPERATIONS lists the operations of a tenant.
// simulated-tenant.js has the state of a tenant.
'use strict';

const crypto = require('node:crypto');
const { Resolver } = require('node:dns').promises;
const { Answer, Refusal, Simulator } = require('./tenantry-simulator.js');
const { Tenant, mailRecords, signingRecords, ZONES } = require('./simulated-tenant.js');

const TOKEN = 'simulated-token-of-example';
const WAKE_TIME = 60 * 1000; // how long the preparation of a dormant mail server takes, in milliseconds
const TRACE_PAGE = 100;
const SHORTEST_PASSWORD = 8;

// start starts the simulator, and returns its ready line.
async function start(options) {
  const url = await new Platform(options.world).listen(options);
  return {
    provider: options.name, url, control: ['tenants', 'messages'], zones: ZONES,
    settings: { api_url: url + '/v1', login_url: url }, secrets: { api_token: TOKEN },
  };
}

// refuse throws a Refusal with an error code of the API.
function refuse(code) {
  const status = ['no_consent', 'no_role'].includes(code) ? 403 : code.startsWith('no_') ? 404 : 409;
  throw new Refusal(status, code);
}

// Platform has tenants by their ids, logins by their codes, and a counter for ids.
class Platform extends Simulator {
  constructor(world) {
    super();
    Object.assign(this, { world, kept: ['tenants', 'logins', 'serial'], tenants: new Map(), logins: new Map(), serial: 0 });
  }

  load(state) {
    super.load(state);
    for (const tenant of this.tenants.values()) Object.setPrototypeOf(tenant, Tenant.prototype); // the file has no classes
  }

  newID() {
    this.serial += 1;
    return `00000000-0000-4000-8000-${this.serial.toString(16).padStart(12, '0')}`;
  }

  isWrite({ method, path }) {
    return method !== 'GET' && path.startsWith('/v1/tenants/');
  }

  api(request) {
    const { method, names: [first, collection, id, ...rest], bearer } = request;
    if (first === 'consent') return this.consent(request);
    if (first === 'sign-in') return this.signIn(request);
    if (bearer() !== TOKEN) throw new Refusal(401, 'token_refused');
    if (`${method} ${collection}` === 'GET application') return { name: 'tenantry' };
    if (`${method} ${collection}` === 'POST logins') return this.redeem(request.json());
    const tenant = this.tenants.get(id);
    if (!tenant?.consents(this.now())) refuse('no_consent');
    const [collectionOfTenant, item, action] = rest;
    const operation = `${method} ${[collectionOfTenant, item && '*', action].filter(Boolean).join('/')}`.trim();
    if (!Object.hasOwn(OPERATIONS, operation)) refuse('no_path');
    if (!WITHOUT_ROLE.test(operation) && !tenant.hasRole(this.now())) refuse('no_role');
    return OPERATIONS[operation]({ platform: this, tenant, item, request, now: this.now() });
  }

  // published reports whether the DNS has a record. Without an answer, the record counts as
  // missing.
  async published({ type, name, content }) {
    try {
      const resolver = new Resolver({ timeout: 1000, tries: 3 });
      resolver.setServers([(await (await fetch(this.world + '/dns')).json()).addr]);
      const values = type === 'CNAME' ? await resolver.resolveCname(name) : (await resolver.resolveTxt(name)).map((parts) => parts.join(''));
      return values.includes(content);
    } catch {
      return false;
    }
  }

  // consent is the page on which an administrator gives the application access to the tenant.
  consent(request) {
    const { username, accepted, page } = decide(request, 'Let tenantry manage your mail?');
    if (page) return page;
    if (!accepted) return goBack(request, { error: 'denied' });
    const tenant = [...this.tenants.values()].find((t) => t.admin === username);
    if (!tenant) return new Answer('<p>Only an administrator can agree.</p>', { status: 403 });
    tenant.consentAt = tenant.later(this.now(), 'consent_ms');
    return goBack(request, { tenant: tenant.id });
  }

  // signIn is the page on which a person signs in to the tenant of the link.
  signIn(request) {
    const { username, accepted, page } = decide(request, 'Sign in');
    if (page) return page;
    if (!accepted) return goBack(request, { error: 'denied' });
    const code = crypto.randomUUID();
    this.logins.set(code, { ...Object.fromEntries(request.query), username });
    return goBack(request, { code });
  }

  // redeem returns the person who signed in. A code works once.
  redeem({ code, verifier, redirect }) {
    const login = this.logins.get(code);
    this.logins.delete(code);
    const tenant = this.tenants.get(login?.tenant);
    const challenge = crypto.createHash('sha256').update(String(verifier)).digest('base64url');
    if (!tenant || login.redirect !== redirect || login.challenge !== challenge) refuse('login_refused');
    const { username, nonce } = login;
    return { tenant: tenant.id, nonce, username, name: username.split('@')[0], administrator: username === tenant.admin };
  }

  control(request) {
    const { method, names: [collection, id, action], json } = request;
    if (collection === 'suite') return { member: 'member@$domain', guest: 'guest@elsewhere.mail.example' };
    if (`${method} ${collection}` === 'POST messages') return this.sendMessages(json());
    if (collection !== 'tenants') return super.control(request);
    if (`${method} ${id ?? ''}` === 'POST ') return this.createTenant(json());
    const tenant = this.tenants.get(id);
    if (!tenant) throw new Refusal(404, 'there is no such tenant');
    switch (`${method} ${action ?? ''}`.trim()) {
      case 'GET': return tenant.show();
      case 'POST behaviour': return void Object.assign(tenant.behaviour, json());
      case 'POST rules': return void tenant.setForeignRule(this, json());
      case 'POST revoke': return void tenant.revoke(json().what);
      default: throw new Refusal(404, 'there is no such control call');
    }
  }

  createTenant({ name, bootstrap, smtp_auth: smtp }) {
    const tenant = new Tenant(this.newID(), this.serial, name);
    Object.assign(tenant, { dormant: bootstrap === 'dehydrated', denied: bootstrap === 'denied', smtpRefused: smtp === 'refused' });
    this.tenants.set(tenant.id, tenant);
    return { tenant_id: tenant.id, admin: tenant.admin };
  }

  // sendMessages makes a mailbox send messages now.
  sendMessages({ mailbox, count }) {
    const tenant = [...this.tenants.values()].find((t) => t.find(mailbox));
    if (!tenant) throw new Refusal(404, 'there is no such mailbox');
    const sender = mailbox.toLowerCase();
    for (let i = 0; i < count; i += 1) {
      tenant.messages.push({ id: this.newID(), sender, at: this.now(), refused: tenant.blocks(sender, this.now()) });
    }
  }
}

// WITHOUT_ROLE matches the operations that need no role of the mail server.
const WITHOUT_ROLE = /^(GET|GET people|PUT role|\w+ domains.*)$/;

// OPERATIONS are the operations of a tenant, keyed by the method and the path below the tenant. In
// a path, * stands for the item.
const OPERATIONS = {
  GET: ({ tenant }) => ({ name: tenant.name, builtin_domain: tenant.builtin, default_domain: '' }),
  'GET people': ({ tenant }) => ({ users: 1, licences: tenant.behaviour.licenses ?? { paid: 1, trial: 0 } }),

  'GET domains': ({ tenant }) => ({ domains: [...tenant.domains.values()].map(showDomain) }),
  'PUT domains/*': ({ tenant, item }) => {
    if (!item.includes('.') || item.endsWith('.mail.example')) refuse('domain_name_refused');
    if (!tenant.domains.has(item)) tenant.domains.set(item, { name: item, verified: false, mailEnabled: false });
    return showDomain(tenant.domains.get(item));
  },
  'GET domains/*': (q) => showDomain(domainOf(q)),
  'DELETE domains/*': (q) => {
    domainOf(q);
    if (q.tenant.mailboxes.some((m) => m.address.endsWith('@' + q.item))) refuse('domain_used');
    q.tenant.domains.delete(q.item);
  },
  'GET domains/*/records': (q) => ({ proof: [q.tenant.proof(q.item)], mail: domainOf(q).mailEnabled ? mailRecords(q.item) : [] }),
  'POST domains/*/verify': async (q) => {
    const domain = domainOf(q);
    const taken = [...q.platform.tenants.values()].some((t) => t !== q.tenant && t.domains.get(q.item)?.verified);
    if (taken) refuse('domain_taken');
    if (!domain.verified && !(await q.platform.published(q.tenant.proof(q.item)))) refuse('domain_not_proven');
    domain.verified = true;
    return showDomain(domain);
  },
  'POST domains/*/mail': (q) => {
    const domain = domainOf(q);
    if (!domain.verified) refuse('domain_not_verified');
    if (!domain.mailEnabled) Object.assign(domain, { mailEnabled: true, acceptedAt: q.tenant.later(q.now, 'accepted_domain_ms') });
    return showDomain(domain);
  },

  // This operation gives the application the role, unless the tenant denies it. Once the role
  // applies, it begins the preparation of a dormant mail server.
  'PUT role': ({ tenant, now }) => {
    if (!tenant.roleAt && tenant.denied) return { state: 'denied' };
    tenant.roleAt ??= tenant.later(now, 'role_ms');
    if (now < tenant.roleAt) return { state: 'waiting' };
    if (tenant.dormant) tenant.awakeAt ??= new Date(now.getTime() + WAKE_TIME);
    return { state: tenant.dormant && now < tenant.awakeAt ? 'waiting' : 'active' };
  },
  'GET smtp': ({ tenant }) => ({ enabled: tenant.smtp }),
  'PUT smtp': ({ tenant }) => {
    if (tenant.smtpRefused) refuse('smtp_locked');
    tenant.smtp = true;
    return { enabled: true };
  },
  'GET mail-domains': ({ tenant, now }) => ({ domains: [tenant.builtin, ...[...tenant.domains.keys()].filter((name) => tenant.accepts(name, now))] }),
  'GET signing/*': (q) => showSigning(q),
  'PUT signing/*': (q) => {
    if (!q.tenant.accepts(q.item, q.now)) refuse('not_ready');
    q.tenant.domains.get(q.item).signing ??= { enabled: false };
    return showSigning(q);
  },
  'POST signing/*/enable': async (q) => {
    showSigning(q);
    const { signing } = q.tenant.domains.get(q.item);
    for (const record of signing.enabled ? [] : signingRecords(q.item)) {
      if (!(await q.platform.published(record))) refuse('signing_records_missing');
    }
    signing.enabled = true;
  },

  'GET mailboxes': ({ tenant }) => ({ mailboxes: tenant.mailboxes }),
  'POST mailboxes': ({ platform, tenant, request, now }) => {
    const { name, address } = request.json();
    const [local, domain] = address.toLowerCase().split('@');
    if (!tenant.accepts(domain, now)) refuse('not_ready');
    if (tenant.find(address)) refuse('address_taken');
    const id = platform.newID();
    const alias = local + platform.serial;
    const mailbox = { id, name, address: address.toLowerCase(), username: `${alias}@${tenant.builtin}`, alias, enabled: false, created: now };
    tenant.mailboxes.push(mailbox);
    return mailbox;
  },
  'GET mailboxes/*': (q) => mailboxOf(q),
  'PATCH mailboxes/*': (q) => Object.assign(mailboxOf(q), { name: q.request.json().name }),
  'PUT mailboxes/*/submission': (q) => void Object.assign(visibleMailboxOf(q), { submission: true }),
  'PUT accounts/*': (q) => {
    const { username, password } = q.request.json();
    const mailbox = visibleMailboxOf(q);
    if (password.length < SHORTEST_PASSWORD) refuse('password_weak');
    Object.assign(mailbox, { username, enabled: true });
  },
  'DELETE accounts/*': (q) => {
    const mailbox = visibleMailboxOf(q);
    q.tenant.mailboxes = q.tenant.mailboxes.filter((m) => m !== mailbox);
  },

  'GET rules': ({ tenant }) => ({ rules: tenant.rules.map(showRule) }),
  'PUT rules/*': ({ platform, tenant, item, request }) => showRule(tenant.setRule(platform, item, request.json())),
  'DELETE rules/*': ({ tenant, item }) => {
    const rule = tenant.rule(item) ?? refuse('no_rule');
    tenant.rules = tenant.rules.filter((r) => r !== rule);
  },
  // This operation answers with one page of the trace. The cursor is the number of messages before
  // the page.
  'GET messages': ({ tenant, request: { query }, now }) => {
    const [from, to] = [new Date(query.get('from')), new Date(query.get('to'))];
    const skip = Number(query.get('cursor'));
    if (Number.isNaN(to - from) || !Number.isInteger(skip) || skip < 0) refuse('query_invalid');
    const senders = query.getAll('sender').map((s) => s.toLowerCase());
    const found = tenant.messages.filter(({ sender, at }) => senders.includes(sender) && tenant.later(at, 'trace_ms') <= now && at >= from && at < to);
    const end = skip + (tenant.behaviour.trace_page ?? TRACE_PAGE);
    return { messages: found.slice(skip, end), next: end < found.length ? String(end) : '' };
  },
};

const domainOf = ({ tenant, item }) => tenant.domains.get(item) ?? refuse('no_domain');
const showDomain = ({ name, verified, mailEnabled }) => ({ name, verified, default: false, mail_enabled: mailEnabled });

function showSigning({ tenant, item }) {
  const signing = tenant.domains.get(item)?.signing ?? refuse('no_signing');
  return { enabled: signing.enabled, records: signingRecords(item) };
}

const mailboxOf = ({ tenant, item }) => tenant.find(item) ?? refuse('no_mailbox');

// visibleMailboxOf does the same as mailboxOf, but refuses with not_ready while the directory does
// not show the mailbox yet.
function visibleMailboxOf(q) {
  const mailbox = mailboxOf(q);
  if (q.now < q.tenant.later(mailbox.created, 'mailbox_ms')) refuse('not_ready');
  return mailbox;
}

const showRule = ({ id, name, versions }) => ({ id, name, ...versions.at(-1) });

// decide returns the decision of a person on a page, or the page to show.
function decide({ method, query, text }, title) {
  if (!URL.canParse(query.get('redirect') ?? '')) return { page: new Answer('<p>The link has no address to return to.</p>', { status: 400 }) };
  if (method !== 'POST') return { page: new Answer(form(title)) };
  const decided = new URLSearchParams(text);
  return { username: (decided.get('username') ?? '').toLowerCase(), accepted: decided.get('decision') === 'accept' };
}

const form = (title) => `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>${title}</title></head><body><h1>${title}</h1>
<form method="post"><label>Username <input name="username" required></label>
<button name="decision" value="accept">Continue</button> <button name="decision" value="deny" formnovalidate>Cancel</button></form></body></html>`;

// goBack redirects the browser to the application.
function goBack({ query }, result) {
  const back = new URLSearchParams({ ...result, state: query.get('state') ?? '' });
  return new Answer('', { status: 303, headers: { Location: `${query.get('redirect')}?${back}` } });
}

module.exports = { TOKEN, start };
