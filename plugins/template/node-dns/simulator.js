// SPDX-License-Identifier: Apache-2.0

// A simulated example: its API on a loopback address, for tests and for `tenantry dev`.
//
//     GET   /v1/zones           {"zones": [zone]}
//     GET   /v1/zones/{name}    a zone, with its version in the header ETag
//     PATCH /v1/zones/{name}    {"changes": [record set]}; replaces these sets if the zone still has
//                               the version in the header If-Match, otherwise answers 412
//
// A zone has name, name_servers and sets. A record set has name, type, ttl and values. Control
// calls create zones and credentials, and read and replace record sets.
'use strict';

const { Answer, Refusal, Simulator } = require('./tenantry-simulator.js');

const TOKEN = 'simulated-token';

// start starts the simulator, and returns its ready line.
async function start({ name, world, ...options }) {
  const url = await new DNS(world ? new World(name, world) : new Memory(name)).listen(options);
  return { provider: name, url, settings: { api_url: url }, secrets: { api_token: TOKEN }, control: [] };
}

// Memory has zones that exist only in this process.
class Memory {
  constructor(name) {
    this.servers = [`ns1.${name}.sandbox-dns.test`, `ns2.${name}.sandbox-dns.test`];
    this.zones = new Map();
  }

  async all() {
    return [...this.zones.values()];
  }

  async add(name) {
    if (!this.zones.has(name)) this.zones.set(name, { name, name_servers: this.servers, version: 1, sets: [] });
  }

  async write(zone, sets) {
    this.zones.set(zone.name, { ...zone, version: zone.version + 1, sets });
  }
}

// World has the zones of a sandbox, which its DNS server serves.
class World {
  constructor(name, url) {
    Object.assign(this, { name, url });
  }

  async all() {
    const found = await this.call('GET', '/zones?provider=' + encodeURIComponent(this.name));
    return found.map((z) => ({ name: z.name, name_servers: z.name_servers, version: z.version, sets: fromRecords(z.records) }));
  }

  async add(name) {
    if (!(await this.all()).some((z) => z.name === name)) throw new Refusal(404, 'no such zone');
  }

  async write(zone, sets) {
    await this.call('PUT', '/zones/' + encodeURIComponent(zone.name), { name: zone.name, version: zone.version, records: toRecords(sets), veiled: [] });
  }

  async call(method, path, body) {
    const answer = await fetch(this.url + path, { method, body: body && JSON.stringify(body) });
    const status = { 200: 200, 409: 412, 400: 422, 404: 404 }[answer.status] ?? 500;
    if (status !== 200) throw new Refusal(status, 'the sandbox refused the zone');
    return answer.json();
  }
}

// These records of the sandbox have their priority in a separate member. The texts of the sandbox
// are in UTF-8.
const WITH_PRIORITY = ['MX', 'SRV'];

function fromRecords(records) {
  const sets = new Map();
  for (const r of records) {
    const text = Buffer.from(r.content).toString('latin1');
    const set = { name: r.name.toLowerCase(), type: r.type, ttl: r.ttl, values: [] };
    const key = `${set.name} ${set.type}`;
    if (!sets.has(key)) sets.set(key, set);
    sets.get(key).values.push(WITH_PRIORITY.includes(r.type) ? `${r.priority} ${text}` : text);
  }
  return [...sets.values()];
}

function toRecords(sets) {
  return sets.flatMap((s) => s.values.map((value) => {
    const record = { type: s.type, name: s.name, ttl: s.ttl };
    let content = Buffer.from(value, 'latin1').toString();
    if (WITH_PRIORITY.includes(s.type)) {
      const [priority, ...rest] = content.split(' ');
      record.priority = Number(priority);
      content = rest.join(' ');
    }
    return { ...record, content };
  }));
}

// DNS serves the API and the control calls.
class DNS extends Simulator {
  constructor(zones) {
    super();
    this.zones = zones;
  }

  async api({ method, names, headers, json, bearer }) {
    // The token of a customer begins with TOKEN and a hyphen.
    if (bearer() !== TOKEN && !bearer().startsWith(`${TOKEN}-`)) throw new Refusal(401, 'the token is not valid');
    const [, , name] = names; // v1, zones, name
    if (method === 'GET' && !name) return { zones: (await this.zones.all()).map(show) };
    let zone = await this.find(name);
    if (method === 'PATCH') {
      if (headers['if-match'] !== `"${zone.version}"`) throw new Refusal(412, 'the zone has changed');
      const sets = new Map(zone.sets.map((s) => [`${s.name} ${s.type}`, s]));
      for (const { name: setName, type, ttl, values } of json().changes) sets.set(`${setName} ${type}`, { name: setName, type, ttl, values });
      await this.zones.write(zone, [...sets.values()].filter((s) => s.values.length > 0));
      zone = await this.find(name);
    } else if (method !== 'GET') {
      throw new Refusal(405, 'the method is GET or PATCH');
    }
    return new Answer(show(zone), { headers: { ETag: `"${zone.version}"` } });
  }

  async find(name) {
    const zone = (await this.zones.all()).find((z) => z.name === name);
    if (!zone) throw new Refusal(404, 'no such zone');
    return zone;
  }

  async control(request) {
    const { method, names: [collection, name, part], json } = request;
    switch (`${method} ${collection} ${part ?? ''}`.trim()) {
      case 'POST credentials':
        return { secrets: { api_token: `${TOKEN}-${json().customer}` } };
      case 'PUT zones':
        return this.zones.add(name);
      case 'GET zones sets':
        return (await this.find(name)).sets;
      case 'PUT zones sets':
        return this.zones.write(await this.find(name), json().filter((s) => s.values.length > 0));
      default:
        return super.control(request);
    }
  }
}

const show = ({ name, name_servers, sets }) => ({ name, name_servers, sets });

module.exports = { TOKEN, start };
