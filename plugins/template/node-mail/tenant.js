// SPDX-License-Identifier: Apache-2.0

// The operations of one tenant of the mail platform Example. Authors change this file.
'use strict';

const mail = require('./tenantry-mail.js');
const { member } = require('./tenantry-http.js');
const { brokenAnswer } = require('./tenantry-plugin.js');

class Tenant {
  constructor(platform, call, id) {
    Object.assign(this, { platform, call, id });
  }

  // send sends a request with a path below the tenant. See Platform.send.
  send(method, names, { query = '', body, absent } = {}) {
    const path = ['tenants', this.id, ...names].map((name) => '/' + encodeURIComponent(name)).join('');
    return this.platform.send(this.call, method, path + query, body, absent);
  }

  // Domains. A domain has name, verified, default and mail_enabled.

  async profile() {
    const t = await this.send('GET', []);
    return { name: text(t, 'name'), builtin_domain: text(t, 'builtin_domain'), default_domain: text(t, 'default_domain') };
  }

  async domains() {
    return member(await this.send('GET', ['domains']), 'domains', 'array').map(toDomain);
  }

  async domain(name) {
    return toDomain(await this.send('GET', ['domains', name]));
  }

  // addDomain adds a domain. The API answers with the existing domain if there is one.
  async addDomain(name) {
    return toDomain(await this.send('PUT', ['domains', name]));
  }

  // records returns the DNS records that prove the ownership of a domain, and the records for its
  // mail.
  async records(name) {
    const records = await this.send('GET', ['domains', name, 'records']);
    return { verification: member(records, 'proof', 'array').map(toRecord), service: member(records, 'mail', 'array').map(toRecord) };
  }

  async verifyDomain(name) {
    return toDomain(await this.send('POST', ['domains', name, 'verify']));
  }

  async enableMail(name) {
    toDomain(await this.send('POST', ['domains', name, 'mail']));
  }

  async removeDomain(name) {
    await this.send('DELETE', ['domains', name], { absent: 'no_domain' });
  }

  // The mail server.

  // bootstrap performs the next step of the preparation. The application needs a role of the mail
  // server. It can usually assign the role to itself. Assigning the role again changes nothing.
  async bootstrap() {
    const { state } = await this.send('PUT', ['role']);
    switch (state) {
      case 'active': return { status: 'ready', message: 'the mail server is ready' };
      case 'waiting': return { status: 'pending', step: 'wait', message: 'the mail server is being prepared' };
      case 'denied': return { status: 'failed', step: 'grant_role', message: 'an administrator must grant the role of the mail server' };
      default: throw brokenAnswer('no_state');
    }
  }

  // smtpEnabled reports whether authenticated SMTP is enabled in the tenant.
  async smtpEnabled() {
    return member(await this.send('GET', ['smtp']), 'enabled', 'boolean');
  }

  async enableSMTP() {
    await this.send('PUT', ['smtp'], { body: { enabled: true } });
  }

  // mailDomains returns the domains for which the mail server accepts mail.
  async mailDomains() {
    return member(await this.send('GET', ['mail-domains']), 'domains', 'array');
  }

  // signing returns the DKIM configuration of a domain, or undefined.
  async signing(name) {
    const signing = await this.send('GET', ['signing', name], { absent: 'no_signing' });
    return signing && toSigning(signing);
  }

  async ensureSigning(name) {
    return toSigning(await this.send('PUT', ['signing', name]));
  }

  async enableSigning(name) {
    await this.send('POST', ['signing', name, 'enable']);
  }

  // Shared mailboxes.

  async mailboxes() {
    return member(await this.send('GET', ['mailboxes']), 'mailboxes', 'array').map(toMailbox);
  }

  // userMailboxes returns the number of licensed user mailboxes.
  async userMailboxes() {
    return member(await this.send('GET', ['people']), 'users', 'number');
  }

  async emailLicenses() {
    const { licences } = await this.send('GET', ['people']);
    return { paid: member(licences, 'paid', 'number'), trial: member(licences, 'trial', 'number') };
  }

  async mailbox(address) {
    return toMailbox(await this.send('GET', ['mailboxes', address]));
  }

  async createMailbox(name, address) {
    return toMailbox(await this.send('POST', ['mailboxes'], { body: { name, address } }));
  }

  // openSignIn sets the password and the username of a mailbox's account, and enables the account.
  async openSignIn(id, address, password) {
    await this.send('PUT', ['accounts', id], { body: { username: address, password } });
  }

  // openSubmission enables authenticated SMTP for a mailbox.
  async openSubmission(address) {
    await this.send('PUT', ['mailboxes', address, 'submission']);
  }

  async rename(address, name) {
    toMailbox(await this.send('PATCH', ['mailboxes', address], { body: { name } }));
  }

  // removeMailbox removes a mailbox. The platform deletes it with its account.
  async removeMailbox(id) {
    await this.send('DELETE', ['accounts', id], { absent: 'no_mailbox' });
  }

  // Mail flow rules. A rule of the API has id, name, enabled, senders and form. The form is
  // "senders" for a rule that only blocks senders. The parameter mailboxes has sorted addresses in
  // lower case.

  // ensureRule returns a rule, and creates a missing rule, switched off. A rule without senders
  // would block everybody, so this method switches it off.
  async ensureRule(name, mailboxes) {
    const rule = await this.rule(name);
    if (rule?.enabled && rule.senders.length === 0) return this.write({ ...rule, enabled: false });
    if (rule) return toRule(rule);
    if (mailboxes.length === 0) return undefined;
    return this.write({ name, form: 'senders', enabled: false, senders: mailboxes }, true);
  }

  // block makes a rule block exactly these mailboxes. It writes nothing if the rule already blocks
  // exactly these mailboxes.
  async block(name, mailboxes) {
    const enabled = mailboxes.length > 0;
    const rule = await this.rule(name);
    if (!rule && !enabled) return undefined;
    if (rule && rule.enabled === enabled && (!enabled || (rule.form === 'senders' && rule.senders.join() === mailboxes.join()))) return toRule(rule);
    const senders = enabled ? mailboxes : rule.senders;
    return this.write({ name, form: enabled ? 'senders' : rule.form, enabled, senders }, !rule);
  }

  async rules() {
    return (await this.managed()).map((rule) => toRule(rule));
  }

  async removeRule(name) {
    await this.send('DELETE', ['rules', name], { absent: 'no_rule' });
  }

  // removeRules removes all managed rules. After an error, a repeated call removes the remaining
  // rules.
  async removeRules() {
    for (const { name } of await this.managed()) await this.removeRule(name);
  }

  // managed returns the rules that tenantry manages, as the API shows them.
  async managed() {
    return member(await this.send('GET', ['rules']), 'rules', 'array').filter((rule) => mail.isRuleName(text(rule, 'name')));
  }

  async rule(name) {
    return (await this.managed()).find((rule) => rule.name.toLowerCase() === name);
  }

  // write creates or replaces a rule. The platform answers with the rule as it is now.
  async write(rule, made = false) {
    return toRule(await this.send('PUT', ['rules', rule.name], { body: rule }), { made, written: true });
  }

  // sent returns a page of the messages of these senders. The cursor is the platform's own cursor.
  async sent(from, to, senders, cursor) {
    const query = new URLSearchParams({ from: from.toISOString(), to: to.toISOString(), cursor });
    for (const sender of senders) query.append('sender', sender);
    const page = await this.send('GET', ['messages'], { query: `?${query}` });
    return { sent: member(page, 'messages', 'array').map(toMessage), next: text(page, 'next') };
  }
}

// The functions below convert the objects of the API to the messages of tenantry.

const text = (object, name) => member(object, name, 'string');
const flag = (object, name) => member(object, name, 'boolean');

const toDomain = (d) => ({
  name: text(d, 'name'), verified: flag(d, 'verified'), default: flag(d, 'default'), mail_enabled: flag(d, 'mail_enabled'),
});

const toRecord = (r) => ({
  type: text(r, 'type'), name: text(r, 'name'), content: text(r, 'content'), preference: member(r, 'priority', 'number'),
  ttl: member(r, 'ttl', 'number'),
});

function toSigning(signing) {
  const [selector1, selector2] = member(signing, 'records', 'array').map(toRecord);
  if (!selector2) throw brokenAnswer('no_records');
  return { enabled: flag(signing, 'enabled'), selector1, selector2 };
}

const toMailbox = (m) => ({
  object_id: text(m, 'id'), display_name: text(m, 'name'), address: text(m, 'address'), principal_name: text(m, 'username'),
  alias: text(m, 'alias'), account_enabled: flag(m, 'enabled'), created_at: member(m, 'created', 'date'),
});

function toRule(rule, { made = false, written = false } = {}) {
  const enabled = flag(rule, 'enabled');
  return {
    id: text(rule, 'id'), name: text(rule, 'name'), enabled, lists: member(rule, 'senders', 'array'),
    altered: enabled && rule.form !== 'senders', made, written,
  };
}

const toMessage = (m) => ({
  message: text(m, 'id'), sender: text(m, 'sender'), at: member(m, 'at', 'date'), refused: flag(m, 'refused'),
});

module.exports = { Tenant };
