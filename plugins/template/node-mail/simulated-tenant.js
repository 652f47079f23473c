// SPDX-License-Identifier: Apache-2.0

// The state of a tenant of the simulated Example, and the DNS records that the platform specifies.
'use strict';

const crypto = require('node:crypto');

// Tenant is a customer of the platform. Its behaviour has delays in milliseconds, the number of
// messages on a page of the trace, and the licences.
class Tenant {
  constructor(id, serial, name) {
    const builtin = `tenant${serial}.mail.example`;
    Object.assign(this, {
      id, name: name || `Tenant ${serial}`, builtin, admin: `admin@${builtin}`, smtp: false,
      behaviour: {}, domains: new Map(), mailboxes: [], rules: [], messages: [],
    });
  }

  // later returns the time `at` plus a delay of the behaviour.
  later(at, delay) {
    return new Date(at.getTime() + (this.behaviour[delay] ?? 0));
  }

  consents(now) {
    return this.consentAt !== undefined && this.consentAt <= now;
  }

  hasRole(now) {
    return this.roleAt !== undefined && this.roleAt <= now;
  }

  // revoke withdraws the consent of the administrator, or the role of the mail server.
  revoke(what) {
    if (what === 'consent') this.consentAt = undefined;
    else this.roleAt = undefined;
  }

  // accepts reports whether the mail server accepts mail for a domain.
  accepts(name, now) {
    const domain = this.domains.get(name);
    return domain?.mailEnabled === true && domain.acceptedAt <= now;
  }

  // find returns the mailbox with an address or an id, or undefined.
  find(key) {
    return this.mailboxes.find((m) => m.id === key || m.address === key.toLowerCase());
  }

  rule(name) {
    return this.rules.find((r) => r.name.toLowerCase() === name.toLowerCase());
  }

  // setRule creates or changes a rule, which keeps its earlier versions.
  setRule(platform, name, { form, enabled, senders }) {
    let rule = this.rule(name);
    if (!rule) {
      rule = { id: platform.newID(), name, versions: [] };
      this.rules.push(rule);
    }
    rule.versions.push({ since: platform.now(), form, enabled, senders });
    return rule;
  }

  // setForeignRule creates or changes a rule as an administrator does. A new rule has the form
  // "custom", which tells the plugin that the rule does more than block senders.
  setForeignRule(platform, { name, enabled, senders }) {
    const form = this.rule(name)?.versions.at(-1).form ?? 'custom';
    this.setRule(platform, name, { form, enabled, senders: senders ?? [] });
  }

  // blocks reports whether a rule blocks a sender. A version of a rule applies after a delay.
  blocks(sender, now) {
    return this.rules.some(({ versions }) => {
      const version = versions.findLast(({ since }) => this.later(since, 'rule_ms') <= now);
      return version?.enabled === true && (version.senders.length === 0 || version.senders.includes(sender));
    });
  }

  // show returns the state of the consent, and the senders that each rule blocks.
  show() {
    const rules = this.rules.map(({ name, versions }) => {
      const { enabled, senders } = versions.at(-1);
      return { name, enabled, blocks: enabled ? senders : [] };
    });
    return { consent: this.consentAt ? 'granted' : 'none', rules };
  }

  // proof returns the record that proves that the tenant owns a domain.
  proof(domain) {
    const digest = crypto.createHash('sha256').update(`${this.id} ${domain}`).digest('hex');
    return { type: 'TXT', name: domain, content: `example-verification=${digest.slice(0, 16)}`, priority: 0, ttl: 3600 };
  }
}

const label = (domain) => domain.replaceAll('.', '-');

// mailRecords returns the records that a domain needs for mail at the platform.
const mailRecords = (domain) => [
  { type: 'MX', name: domain, content: `${label(domain)}.mx.mail.example`, priority: 10, ttl: 3600 },
  { type: 'TXT', name: domain, content: 'v=spf1 include:spf.mail.example -all', priority: 0, ttl: 3600 },
];

// signingRecords returns the records of both DKIM selectors.
const signingRecords = (domain) => ['selector1', 'selector2'].map((selector) => ({
  type: 'CNAME', name: `${selector}._domainkey.${domain}`, content: `${selector}-${label(domain)}._domainkey.dkim.mail.example`, priority: 0, ttl: 3600,
}));

// ZONES are the zones of the platform to which the records of customers refer. The sandbox answers
// for them. The address is reserved for documentation, and the private DKIM key was deleted.
const ZONES = {
  'mail.example': [
    { type: 'A', name: '*.mx.mail.example', content: '192.0.2.25', ttl: 300 },
    { type: 'TXT', name: 'spf.mail.example', content: 'v=spf1 ip4:192.0.2.0/24 -all', ttl: 300 },
    { type: 'TXT', name: '*.dkim.mail.example', content: 'v=DKIM1; k=ed25519; p=aj1mV3WgyL5VthediI+SF4nlJvWc4V/ucdHbiPiVrYA=', ttl: 300 },
  ],
};

module.exports = { Tenant, mailRecords, signingRecords, ZONES };
