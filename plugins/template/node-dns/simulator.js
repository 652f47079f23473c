// SPDX-License-Identifier: Apache-2.0

// A simulated example: its API on a loopback address, for tests and for `tenantry dev`.
//
//     GET   /v1/zones           {"zones": [zone]}
//     GET   /v1/zones/{name}    a zone, with its version in the header ETag
//     PATCH /v1/zones/{name}    {"changes": [record set]}; replaces these sets if the zone still has
//                               the version of the header If-Match, otherwise 412
//
// A zone has name, name_servers and sets. A record set has name, type, ttl and values. The calls below
// /_control/ are those of every simulator: clock, faults, calls, and here zones and their records.
'use strict';

const http = require('node:http');
const { setTimeout: sleep } = require('node:timers/promises');

const TOKEN = 'simulated-token';

// start starts the simulator, and returns its ready line. onServer receives its server.
async function start(name, port, world, onServer = () => {}) {
  const simulator = new Simulator(world ? new World(name, world) : new Memory(name));
  const server = http.createServer((request, answer) => {
    simulator.serve(request, answer).catch(() => request.socket.destroy());
  });
  onServer(server);
  await new Promise((resolve, reject) => server.on('error', reject).listen(port, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  return { provider: name, url, settings: { api_url: url }, secrets: { api_token: TOKEN }, control: [] };
}

// Refusal is an error answer of the API.
class Refusal extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
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

// A record of the sandbox has a preference of its own, and texts in UTF-8.
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

// Simulator serves the API and the control calls.
class Simulator {
  constructor(zones) {
    Object.assign(this, { zones, faults: [], calls: [], ahead: 0, last: Promise.resolve() });
  }

  async serve(request, answer) {
    const parts = [];
    for await (const part of request) parts.push(part);
    const body = Buffer.concat(parts).toString();
    const path = request.url.split('?')[0];
    if (path.startsWith('/_control/')) {
      send(answer, await this.run((parsed) => this.control(request.method, path.slice('/_control'.length), parsed), body));
      return;
    }
    const write = request.method !== 'GET';
    const operation = request.method.toLowerCase();
    const fault = this.takeFault(request.method, path, write);
    const entry = { method: request.method, path, operation, status: 0, at: new Date(Date.now() + this.ahead).toISOString(), write };
    this.calls.push(entry);
    if (fault.kind === 'drop_before') {
      request.socket.destroy();
      return;
    }
    if (fault.kind === 'delay') await sleep(fault.delay_ms);
    let result = { status: fault.status, body: { error: 'a planned fault' }, headers: fault.retry_after ? { 'Retry-After': fault.retry_after } : {} };
    if (fault.kind !== 'status') result = await this.run((parsed) => this.api(request, path, parsed), body);
    entry.status = result.status;
    if (fault.kind === 'delay_after') await sleep(fault.delay_ms);
    if (fault.kind === 'drop_after') {
      request.socket.destroy();
      return;
    }
    send(answer, result);
  }

  // run handles one request after the other, and returns the status, the body and the headers.
  run(handle, body) {
    const result = this.last.then(async () => {
      try {
        return { status: 200, headers: {}, ...(await handle(body ? JSON.parse(body) : {})) };
      } catch (error) {
        const status = error instanceof Refusal ? error.status : 400;
        return { status, headers: {}, body: { error: error instanceof Refusal ? error.message : 'the request is not valid' } };
      }
    });
    this.last = result;
    return result;
  }

  // takeFault returns the planned fault of a call, or an empty one.
  takeFault(method, path, write) {
    for (const fault of this.faults) {
      const [wanted, prefix] = (fault.match ?? '').split(' ');
      if ((fault.writes_only && !write) || (wanted && wanted !== method) || !path.startsWith(prefix ?? '') ||
        (fault.operation && fault.operation !== method.toLowerCase())) continue;
      if (fault.skip > 0) {
        fault.skip -= 1;
        continue;
      }
      fault.times -= 1;
      if (fault.times <= 0) this.faults = this.faults.filter((f) => f !== fault);
      return fault;
    }
    return { kind: '' };
  }

  async api(request, path, body) {
    const shown = request.headers.authorization ?? '';
    if (shown !== `Bearer ${TOKEN}` && !shown.startsWith(`Bearer ${TOKEN}-`)) throw new Refusal(401, 'the token is not valid'); // of a customer
    if (request.method === 'GET' && path === '/v1/zones') return { body: { zones: (await this.zones.all()).map(show) } };
    let zone = await this.find(path.slice('/v1/zones/'.length));
    if (request.method === 'PATCH') {
      if (request.headers['if-match'] !== `"${zone.version}"`) throw new Refusal(412, 'the zone has changed');
      const sets = new Map(zone.sets.map((s) => [`${s.name} ${s.type}`, s]));
      for (const { name, type, ttl, values } of body.changes) sets.set(`${name} ${type}`, { name, type, ttl, values });
      await this.zones.write(zone, [...sets.values()].filter((s) => s.values.length > 0));
      zone = await this.find(zone.name);
    } else if (request.method !== 'GET') {
      throw new Refusal(405, 'the method is GET or PATCH');
    }
    return { body: show(zone), headers: { ETag: `"${zone.version}"` } };
  }

  async find(name) {
    const zone = (await this.zones.all()).find((z) => z.name === decodeURIComponent(name));
    if (!zone) throw new Refusal(404, 'no such zone');
    return zone;
  }

  async control(method, path, body) {
    const name = path.startsWith('/zones/') ? decodeURIComponent(path.split('/')[2]) : '';
    switch (`${method} ${path}`) {
      case 'POST /clock':
        if (body.now) this.ahead = Date.parse(body.now) - Date.now();
        return { body: {} };
      case 'POST /faults':
        this.faults.push(body);
        return { body: {} };
      case 'DELETE /faults':
        this.faults = [];
        return { body: {} };
      case 'GET /calls':
        return { body: this.calls };
      case 'DELETE /calls':
        this.calls = [];
        return { body: {} };
      case 'POST /credentials':
        return { body: { secrets: { api_token: `${TOKEN}-${body.customer}` } } };
      case `PUT /zones/${name}`:
        await this.zones.add(name);
        return { body: {} };
      case `GET /zones/${name}/sets`:
        return { body: (await this.find(name)).sets };
      case `PUT /zones/${name}/sets`:
        await this.zones.write(await this.find(name), body.filter((s) => s.values.length > 0));
        return { body: {} };
      default:
        throw new Refusal(404, 'there is no such control call');
    }
  }
}

function send(answer, { status, headers, body }) {
  answer.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(body));
}

const show = ({ name, name_servers, sets }) => ({ name, name_servers, sets });

module.exports = { TOKEN, start };
