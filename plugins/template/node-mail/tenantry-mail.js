// SPDX-License-Identifier: Apache-2.0

// The rules that hold for every mail platform. Authors do not change this file.
//
// The objects that a platform returns have the members of the messages in mail.proto. Their times
// are Dates.
'use strict';

const crypto = require('node:crypto');
const { Outcome, fromTimestamp, timestamp } = require('./tenantry-plugin.js');

// of returns a method of the service that calls a tenant. done is for a call that may have no
// result.
const of = (run) => (platform, call, request) => run(platform.tenant(call, request.tenant), request);
const done = (run) => async (platform, call, request) => (await of(run)(platform, call, request)) ?? {};

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

    Profile: of((tenant) => tenant.profile()),
    Domains: of(async (tenant) => ({ domains: await tenant.domains() })),
    Domain: of((tenant, { name }) => tenant.domain(name)),
    AddDomain: of((tenant, { name }) => tenant.addDomain(name)),
    Records: of((tenant, { name }) => tenant.records(name)),
    VerifyDomain: of((tenant, { name }) => tenant.verifyDomain(name)),
    EnableMail: done((tenant, { name }) => tenant.enableMail(name)),
    RemoveDomain: done((tenant, { name }) => tenant.removeDomain(name)),

    Bootstrap: of((tenant) => tenant.bootstrap()),
    SMTPAuth: of(async (tenant) => ({ state: (await tenant.smtpEnabled()) ? 'enabled' : 'disabled' })),
    EnableSMTPAuth: done((tenant) => tenant.enableSMTP()),
    MailDomains: of(async (tenant) => ({ domains: await tenant.mailDomains() })),
    Signing: done((tenant, { name }) => tenant.signing(name)),
    EnsureSigning: of((tenant, { name }) => tenant.ensureSigning(name)),
    EnableSigning: done((tenant, { name }) => tenant.enableSigning(name)),

    Mailboxes: of(async (tenant) => ({ mailboxes: (await tenant.mailboxes()).map(toMailbox) })),
    UserMailboxes: of(async (tenant) => ({ count: await tenant.userMailboxes() })),
    EmailLicenses: of((tenant) => tenant.emailLicenses()),
    Mailbox: of(async (tenant, { address }) => toMailbox(await tenant.mailbox(address))),
    CreateMailbox: of(async (tenant, { display_name: name, address }) => toMailbox(await tenant.createMailbox(name, address))),
    OpenSignIn: done((tenant, { object_id: id, address, password }) => tenant.openSignIn(id, address, password.toString())),
    OpenSubmission: done((tenant, { address }) => tenant.openSubmission(address)),
    Rename: done((tenant, { address, display_name: name }) => tenant.rename(address, name)),
    RemoveMailbox: done((tenant, { object_id: id }) => tenant.removeMailbox(id)),

    EnsureRule: done((tenant, { scope, mailboxes }) => tenant.ensureRule(ruleName(scope), normalized(mailboxes))),
    Block: done((tenant, { scope, mailboxes }) => tenant.block(ruleName(scope), normalized(mailboxes))),
    Rules: of(async (tenant) => ({ rules: await tenant.rules() })),
    RemoveRule: done((tenant, { scope }) => tenant.removeRule(ruleName(scope))),
    RemoveRules: done((tenant) => tenant.removeRules()),
    Sent: of(async (tenant, { from, to, cursor, senders }) => {
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
