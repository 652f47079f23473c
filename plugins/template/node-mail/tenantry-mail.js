// SPDX-License-Identifier: Apache-2.0

// The rules that hold for every mail platform. Authors do not change this file.
//
// The objects that a platform returns have the members of the messages in mail.proto. Their times
// are Dates.
'use strict';

const crypto = require('node:crypto');
const { Outcome, fromTimestamp, timestamp } = require('./tenantry-plugin.js');

// ofTenant returns a method of the service that calls a tenant. ofTenantOrEmpty is for a call that
// may have no result.
const ofTenant = (run) => (platform, call, request) => run(platform.tenant(call, request.tenant), request);
const ofTenantOrEmpty = (run) => async (platform, call, request) => (await ofTenant(run)(platform, call, request)) ?? {};

const signInOf = (message) => ({ ...message, verifier: message.verifier.toString() });
const toMailbox = (m) => ({ ...m, created_at: timestamp(m.created_at) });
const toMessage = (m) => ({ ...m, at: timestamp(m.at) });

// service is the gRPC service of a mail platform. Each method calls a method of the platform or of
// a tenant.
const service = {
  file: 'plugins/proto/mail.proto',
  name: 'tenantry.plugin.v1.MailPlatform',
  methods: {
    Check: async (platform, call) => (await platform.check(call)) ?? {},
    ConsentURL: async (platform, call, { state, redirect }) => ({ url: platform.consentURL(state, redirect) }),
    Granted: async (platform, call, { query }) => ({ tenant: platform.granted(query) }),
    SignInURL: async (platform, call, { sign_in: signIn }) => ({ url: platform.signInURL(signInOf(signIn)) }),
    Administrator: (platform, call, { sign_in: signIn, code }) => platform.administrator(call, signInOf(signIn), code.toString()),

    Profile: ofTenant((tenant) => tenant.profile()),
    Domains: ofTenant(async (tenant) => ({ domains: await tenant.domains() })),
    Domain: ofTenant((tenant, { name }) => tenant.domain(name)),
    AddDomain: ofTenant((tenant, { name }) => tenant.addDomain(name)),
    Records: ofTenant((tenant, { name }) => tenant.records(name)),
    VerifyDomain: ofTenant((tenant, { name }) => tenant.verifyDomain(name)),
    EnableMail: ofTenantOrEmpty((tenant, { name }) => tenant.enableMail(name)),
    RemoveDomain: ofTenantOrEmpty((tenant, { name }) => tenant.removeDomain(name)),

    Bootstrap: ofTenant((tenant) => tenant.bootstrap()),
    SMTPAuth: ofTenant(async (tenant) => ({ state: (await tenant.smtpEnabled()) ? 'enabled' : 'disabled' })),
    EnableSMTPAuth: ofTenantOrEmpty((tenant) => tenant.enableSMTP()),
    MailDomains: ofTenant(async (tenant) => ({ domains: await tenant.mailDomains() })),
    Signing: ofTenantOrEmpty((tenant, { name }) => tenant.signing(name)),
    EnsureSigning: ofTenant((tenant, { name }) => tenant.ensureSigning(name)),
    EnableSigning: ofTenantOrEmpty((tenant, { name }) => tenant.enableSigning(name)),

    Mailboxes: ofTenant(async (tenant) => ({ mailboxes: (await tenant.mailboxes()).map(toMailbox) })),
    UserMailboxes: ofTenant(async (tenant) => ({ count: await tenant.userMailboxes() })),
    EmailLicenses: ofTenant((tenant) => tenant.emailLicenses()),
    Mailbox: ofTenant(async (tenant, { address }) => toMailbox(await tenant.mailbox(address))),
    CreateMailbox: ofTenant(async (tenant, { display_name: name, address }) => toMailbox(await tenant.createMailbox(name, address))),
    OpenSignIn: ofTenantOrEmpty((tenant, { object_id: id, address, password }) => tenant.openSignIn(id, address, password.toString())),
    OpenSubmission: ofTenantOrEmpty((tenant, { address }) => tenant.openSubmission(address)),
    Rename: ofTenantOrEmpty((tenant, { address, display_name: name }) => tenant.rename(address, name)),
    RemoveMailbox: ofTenantOrEmpty((tenant, { object_id: id }) => tenant.removeMailbox(id)),

    EnsureRule: ofTenantOrEmpty((tenant, { scope, mailboxes }) => tenant.ensureRule(ruleName(scope), normalized(mailboxes))),
    Block: ofTenantOrEmpty((tenant, { scope, mailboxes }) => tenant.block(ruleName(scope), normalized(mailboxes))),
    Rules: ofTenant(async (tenant) => ({ rules: await tenant.rules() })),
    RemoveRule: ofTenantOrEmpty((tenant, { scope }) => tenant.removeRule(ruleName(scope))),
    RemoveRules: ofTenantOrEmpty((tenant) => tenant.removeRules()),
    Sent: ofTenant(async (tenant, { from, to, cursor, senders }) => {
      if (senders.length === 0) return { sent: [], next: '' };
      const { sent, next } = await tenant.sent(fromTimestamp(from), fromTimestamp(to), senders, cursor);
      return { sent: sent.map(toMessage), next };
    }),
  },
};

// refusedAs returns the outcome for a refusal with a published error code.
const refusedAs = (code, cause) => new Outcome('refused', cause, 'the platform refused this', { code });

// waitsFor returns the outcome for a call that the platform cannot do yet. The host repeats the
// call.
const waitsFor = (cause) => new Outcome('not_ready', cause, 'the platform is not ready for this');

const PREFIX = 'tenantry-block-';
const LONGEST_NAME = 64;

// ruleName returns the name of the rule of a scope: a domain, or '' for the whole tenant.
function ruleName(scope) {
  if (scope === '') return PREFIX + 'tenantwide';
  const name = PREFIX + scope.toLowerCase();
  if (name.length <= LONGEST_NAME) return name;
  const hash = crypto.createHash('sha256').update(scope.toLowerCase()).digest('hex').slice(0, 12);
  return `${name.slice(0, LONGEST_NAME - 1 - hash.length)}-${hash}`;
}

// isRuleName reports whether ruleName can return this name. Foreign rules may have the prefix too.
function isRuleName(text) {
  const name = text.toLowerCase();
  if (name.length > LONGEST_NAME || !/^tenantry-block-[a-z0-9.-]*$/.test(name)) return false;
  const scope = name.slice(PREFIX.length);
  return scope === 'tenantwide' || /[a-z0-9].*\..*[a-z0-9]/.test(scope) || (name.length === LONGEST_NAME && /-[0-9a-f]{12}$/.test(name));
}

// normalized returns addresses in lower case, sorted, each once.
const normalized = (addresses) => [...new Set(addresses.map((a) => a.toLowerCase()))].sort();

module.exports = { service, refusedAs, waitsFor, ruleName, isRuleName };
