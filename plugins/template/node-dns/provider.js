// SPDX-License-Identifier: Apache-2.0

// The DNS provider example: its description, and the calls of its API. Authors change this file.
'use strict';

const crypto = require('node:crypto');
const dns = require('./tenantry-dns.js');
const { member, request } = require('./tenantry-http.js');
const { brokenAnswer, credentialRefused, misconfigured, requestRefused } = require('./tenantry-plugin.js');

const description = {
  name: 'example', kind: 'dns', version: '0.1.0', title: 'Example DNS',
  // Every write is all or nothing, and fails if the zone has changed since it was read.
  capabilities: ['atomic', 'conditional'],
  fields: [
    { name: 'api_token', account: true, required: true, secret: true, default: '', help: 'API token that may read and write the zones' },
    { name: 'api_url', account: false, required: false, secret: false, default: 'https://api.example.invalid', help: "base URL of the provider's API" },
  ],
  hosts: ['{api_url}'], // the plugin calls no other hosts
  name_servers: ['*.ns.example.com'],
  budgets: [{ key: 'credential', limit: 1200, window_seconds: 300, costs: { apply: 2 } }],
};

// connect returns the provider for one call.
function connect({ settings, secrets }) {
  const url = settings.api_url ?? '';
  const token = secrets.api_token ?? '';
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed || !['https:', 'http:'].includes(parsed.protocol) || parsed.username) throw misconfigured('api_url', 'it is not a URL');
  if (!/^[\x20-\x7e]+$/.test(token)) throw misconfigured('api_token', 'it is missing or has invalid characters');
  return new Provider(url.replace(/\/+$/, ''), token);
}

// Provider is the provider, with the credential of one call.
class Provider {
  constructor(url, token) {
    this.url = url;
    this.token = token;
    this.scope = crypto.createHash('sha256').update(`${url} ${token}`).digest('hex');
  }

  // check returns the number of zones to which the credential has access.
  async check(call) {
    const { body } = await this.call(call, 'GET', '/v1/zones');
    return member(body, 'zones', 'array').length;
  }

  // zone returns the zone with this apex.
  async zone(call, name) {
    const { body } = await this.read(call, name);
    return { id: name, name, name_servers: member(body, 'name_servers', 'array'), idle: '' };
  }

  // records returns all record sets of a zone.
  async records(call, zone) {
    const { body } = await this.read(call, zone.id);
    return setsOf(body);
  }

  // apply makes all changes or none, and returns the changed sets as the provider stores them.
  async apply(call, zone, changes) {
    dns.checkChanges(zone.name, changes);
    const { body, version } = await this.read(call, zone.id);
    let sets = setsOf(body);
    const missing = dns.outstanding(sets, changes);
    if (missing.length > 0) {
      const answer = await this.call(call, 'PATCH', path(zone.id), { changes: missing.map(toAPI) }, { 'If-Match': version });
      if (answer.status === 412) throw dns.changed();
      if (answer.status >= 400) throw requestRefused(`status ${answer.status}`);
      sets = dns.checkWritten(setsOf(answer.body), missing);
    }
    return dns.setsAfter(sets, changes);
  }

  // read returns the zone as the API shows it, and its version.
  async read(call, name) {
    const { status, headers, body } = await this.call(call, 'GET', path(name));
    if (status === 404) throw dns.noZone();
    return { body, version: headers.etag ?? '' };
  }

  async call(call, method, path, body, headers) {
    const answer = await request(call, this.scope, method, this.url + path, { Authorization: `Bearer ${this.token}`, ...headers }, body);
    if ([401, 403].includes(answer.status)) throw credentialRefused(`status ${answer.status}`);
    if (![200, 404, 409, 412, 422].includes(answer.status)) throw brokenAnswer(`status ${answer.status}`);
    return answer;
  }
}

const path = (zone) => '/v1/zones/' + encodeURIComponent(zone);

// The API writes a value as a text in which each character is one byte. tenantry-zonefile.js
// converts the format of zone files, which most providers use.

function setsOf(body) {
  return member(body, 'sets', 'array').map((s) => {
    if (!member(s, 'values', 'array').every((v) => typeof v === 'string')) throw brokenAnswer('wrong_shape');
    return { ...s, values: s.values.map((v) => Buffer.from(v, 'latin1')) };
  });
}

const toAPI = ({ name, type, ttl, values }) => ({ name, type, ttl, values: values.map((v) => v.toString('latin1')) });

module.exports = { description, connect };
