// SPDX-License-Identifier: Apache-2.0

// The mail platform Example: its description, the consent and the sign-in of an administrator, and
// one request to its API. Authors change this file and tenant.js, which has the operations of a
// tenant.
'use strict';

const crypto = require('node:crypto');
const mail = require('./tenantry-mail.js');
const { Tenant } = require('./tenant.js');
const { member, request } = require('./tenantry-http.js');
const { brokenAnswer, credentialRefused, misconfigured, requestRefused } = require('./tenantry-plugin.js');

const description = {
  name: 'example', kind: 'mail', version: '0.1.0', title: 'Example',
  fields: [
    { name: 'api_token', account: false, required: true, secret: true, default: '', help: "token of the operator's application" },
    { name: 'api_url', account: false, required: false, secret: false, default: 'https://api.example.com/v1', help: 'base URL of the API' },
    { name: 'login_url', account: false, required: false, secret: false, default: 'https://login.example.com', help: 'base URL of the pages on which administrators agree and sign in' },
  ],
  hosts: ['{api_url}'], // the plugin calls no other hosts
  mail_platform: {
    builtin_domains: ['mail.example'],
    exchange_hosts: ['.mx.mail.example'], signing_hosts: ['.dkim.mail.example'], verification_hosts: ['.proof.mail.example'],
    application_field: '',
    administrator: 'administrator',
    withdrawal: 'Remove the application in the settings of your organization.',
    left_rules: 'You find the rules in the settings of your organization, under mail flow.',
  },
  budgets: [{ key: 'tenant', limit: 600, window_seconds: 60 }], // the published rate limit of each tenant
};

// REFUSALS maps the error codes of the API to the codes that tenantry publishes.
const REFUSALS = new Map(Object.entries({
  no_consent: 'access_denied', no_role: 'access_denied',
  login_refused: 'connect_link_invalid',
  no_domain: 'domain_not_found', domain_name_refused: 'invalid_domain', domain_taken: 'domain_unavailable',
  domain_not_proven: 'verification_failed', domain_not_verified: 'domain_not_verified', domain_used: 'domain_in_use',
  smtp_locked: 'smtp_auth_not_enabled', signing_records_missing: 'dkim_not_ready', no_signing: 'dkim_not_ready',
  no_mailbox: 'mailbox_not_found', address_taken: 'invalid_mailbox_email', password_weak: 'weak_password',
}));

const TENANT_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

// connect returns the platform for one call.
function connect({ settings, secrets }) {
  const token = secrets.api_token ?? '';
  for (const name of ['api_url', 'login_url']) {
    const parsed = URL.canParse(settings[name] ?? '') ? new URL(settings[name]) : undefined;
    if (!parsed || !['https:', 'http:'].includes(parsed.protocol) || parsed.username) throw misconfigured(name, 'it is not a URL');
  }
  if (!/^[\x20-\x7e]+$/.test(token)) throw misconfigured('api_token', 'it is missing or has invalid characters');
  return new Platform(settings.api_url.replace(/\/+$/, ''), settings.login_url.replace(/\/+$/, ''), token);
}

// Platform is the platform, with the token of the operator's application.
class Platform {
  constructor(base, login, token) {
    Object.assign(this, { base, login, token });
    this.scope = crypto.createHash('sha256').update(`${base} ${token}`).digest('hex');
  }

  // check tests the token without a tenant.
  async check(call) {
    await this.send(call, 'GET', '/application');
  }

  // tenant returns the operations of a tenant.
  tenant(call, id) {
    return new Tenant(this, call, id);
  }

  // consentURL returns the URL at which an administrator gives the application access to a tenant.
  consentURL(state, redirect) {
    return `${this.login}/consent?${new URLSearchParams({ state, redirect })}`;
  }

  // granted returns the tenant in the query with which the platform sends the browser back. The
  // tenant is only a claim.
  granted(query) {
    const q = new URLSearchParams(query);
    if (q.get('error') === 'denied') throw mail.refusedAs('consent_declined', 'denied');
    if (!q.get('state') || !TENANT_ID.test(q.get('tenant') ?? '')) throw mail.refusedAs('invalid_request', 'callback');
    return q.get('tenant');
  }

  // signInURL returns the URL at which the administrator signs in to the tenant. The URL contains
  // the checksum of the verifier, but not the verifier.
  signInURL({ tenant, state, nonce, verifier, redirect }) {
    const challenge = crypto.createHash('sha256').update(verifier).digest('base64url');
    return `${this.login}/sign-in?${new URLSearchParams({ tenant, state, nonce, redirect, challenge })}`;
  }

  // administrator returns the administrator who signed in. The platform accepts the code once, and
  // only with the verifier. It answers with the tenant and the nonce of the sign-in.
  async administrator(call, { tenant, nonce, verifier, redirect }, code) {
    const person = await this.send(call, 'POST', '/logins', { code, verifier, redirect });
    if (member(person, 'tenant', 'string') !== tenant || person.nonce !== nonce) throw mail.refusedAs('connect_link_invalid', 'other_login');
    if (!member(person, 'administrator', 'boolean')) throw mail.refusedAs('not_an_administrator', 'role');
    return { tenant, address: member(person, 'username', 'string'), name: member(person, 'name', 'string') };
  }

  // send sends one request, and returns the object in the answer. It returns undefined if the
  // platform refuses with the error code in `absent`. It never repeats a request, because the host
  // repeats the calls that can be repeated.
  async send(call, method, path, body, absent) {
    const { status, body: answer } = await request(call, this.scope, method, this.base + path, { Authorization: `Bearer ${this.token}` }, body);
    if (status === 200 && typeof answer === 'object' && answer !== null) return answer;
    const code = answer?.error;
    // An answer without an error code is not from the platform, and says nothing about the token.
    if (status < 400 || typeof code !== 'string') throw brokenAnswer(`status ${status}`);
    if (status === 401) throw credentialRefused(`status ${status}`);
    if (code === absent) return undefined;
    if (code === 'not_ready') throw mail.waitsFor(code);
    throw REFUSALS.has(code) ? mail.refusedAs(REFUSALS.get(code), code) : requestRefused(`status ${status}`);
  }
}

module.exports = { description, connect };
