// SPDX-License-Identifier: Apache-2.0

// The common part of all simulators: the server, the clock, planned faults, and the journal of
// calls. Authors do not change this file.
//
// A simulator is a class that extends Simulator. Its method api answers the requests to the
// provider's API, and its method control answers the control calls. A request has the members
// method, path, names, query, headers and text, and the methods json and bearer. names has the
// decoded parts of the path. For a control call, names does not contain _control. text is the body.
// The result of both methods is a JSON value or an Answer. The result undefined stands for an empty
// object.
//
// `kept` lists the names of the members that are stored in a file. The sandbox restarts the
// simulator after each change of the plugin.
'use strict';

const fs = require('node:fs');
const http = require('node:http');
const { join } = require('node:path');
const v8 = require('node:v8');
const { setTimeout: sleep } = require('node:timers/promises');

// Refusal is an error answer of the API or of a control call.
class Refusal extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

// Answer is an answer with a status other than 200, with headers, or with the text of an HTML page.
class Answer {
  constructor(body = {}, { status = 200, headers = {} } = {}) {
    Object.assign(this, { status, headers, body });
  }
}

class Simulator {
  constructor() {
    Object.assign(this, { kept: [], faults: [], calls: [], ahead: 0, last: Promise.resolve() });
  }

  // listen serves the simulator at a port of 127.0.0.1, and returns its URL. data is the folder of
  // the stored state, or undefined. onServer receives the server.
  async listen({ port, data, onServer = () => {} }) {
    if (data) {
      fs.mkdirSync(data, { recursive: true });
      this.file = join(data, 'state');
      if (fs.existsSync(this.file)) this.load(v8.deserialize(fs.readFileSync(this.file)));
    }
    const server = http.createServer((received, answer) => {
      this.serve(received, answer).catch(() => received.socket.destroy());
    });
    onServer(server);
    await new Promise((resolve, reject) => server.on('error', reject).listen(port, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${server.address().port}`;
    return this.url;
  }

  // setClock sets the simulated clock to a time, or advances it by a duration such as 1h30s.
  setClock({ now, advance = '' }) {
    if (now) this.ahead = Date.parse(now) - Date.now();
    const units = { h: 3600000, m: 60000, s: 1000, ms: 1 };
    for (const [, number, unit] of advance.matchAll(/([\d.]+)(ms|h|m|s)/g)) this.ahead += number * units[unit];
  }

  // now returns the time by the simulated clock.
  now() {
    return new Date(Date.now() + this.ahead);
  }

  async serve(received, answer) {
    const request = await read(received);
    if (request.names[0] === '_control') {
      send(answer, await this.run(request, () => this.control({ ...request, names: request.names.slice(1) })));
      return;
    }
    const { method, path } = request;
    const write = this.isWrite(request);
    const fault = this.takeFault(method, path, write);
    const entry = { method, path, operation: method.toLowerCase(), status: 0, at: this.now().toISOString(), write };
    this.calls.push(entry);
    if (fault.kind === 'drop_before') {
      received.socket.destroy();
      return;
    }
    if (fault.kind === 'delay') await sleep(fault.delay_ms);
    const headers = fault.retry_after ? { 'Retry-After': fault.retry_after } : {};
    const result = fault.kind === 'status'
      ? new Answer({ error: 'a planned fault' }, { status: fault.status, headers })
      : await this.run(request, () => this.api(request));
    entry.status = result.status;
    if (fault.kind === 'delay_after') await sleep(fault.delay_ms);
    if (fault.kind === 'drop_after') {
      received.socket.destroy();
      return;
    }
    send(answer, result);
  }

  // isWrite reports whether a request of the API can change something. Some faults affect only such
  // requests.
  isWrite({ method }) {
    return method !== 'GET';
  }

  // run handles one request after the other, and returns the answer.
  run({ method }, handle) {
    this.last = this.last.then(handle).then((result) => {
      if (method !== 'GET') this.save();
      return result instanceof Answer ? result : new Answer(result);
    }).catch((error) => {
      const known = error instanceof Refusal;
      return new Answer({ error: known ? error.message : 'the request is not valid' }, { status: known ? error.status : 400 });
    });
    return this.last;
  }

  load(state) {
    Object.assign(this, state);
  }

  save() {
    if (!this.file) return;
    const state = Object.fromEntries(this.kept.map((name) => [name, this[name]]));
    fs.writeFileSync(this.file + '.new', v8.serialize(state));
    fs.renameSync(this.file + '.new', this.file); // a killed process leaves no partial file
  }

  // takeFault returns the planned fault of a call, or a fault with an empty kind.
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

  // control answers the control calls of every simulator.
  control({ method, names, json }) {
    switch (`${method} ${names[0]}`) {
      case 'POST clock':
        this.setClock(json());
        return undefined;
      case 'POST faults':
        this.faults.push(json());
        return undefined;
      case 'DELETE faults':
        this.faults = [];
        return undefined;
      case 'GET calls':
        return this.calls;
      case 'DELETE calls':
        this.calls = [];
        return undefined;
      default:
        throw new Refusal(404, 'there is no such control call');
    }
  }
}

async function read(received) {
  const parts = [];
  for await (const part of received) parts.push(part);
  const text = Buffer.concat(parts).toString();
  const { pathname: path, searchParams: query } = new URL(received.url, 'http://localhost');
  const { method, headers } = received;
  const names = path.slice(1).split('/').map(decodeURIComponent);
  return {
    method, path, names, query, headers, text,
    json: () => (text ? JSON.parse(text) : {}),
    bearer: () => (headers.authorization ?? '').replace(/^Bearer /, ''),
  };
}

function send(answer, { status, headers, body }) {
  const page = typeof body === 'string';
  answer.writeHead(status, { 'Content-Type': page ? 'text/html; charset=utf-8' : 'application/json', ...headers });
  answer.end(page ? body : JSON.stringify(body));
}

module.exports = { Answer, Refusal, Simulator };
