// SPDX-License-Identifier: Apache-2.0

// The plugin protocol of tenantry. Authors do not change this file.
//
// docs/plugin-protocol.md of tenantry describes the protocol. The packages of gRPC are loaded only
// in a process that the host started. The commands `describe`, `simulate` and `--version` need no
// packages.
'use strict';

const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { parseArgs } = require('node:util');

const COOKIE = ['TENANTRY_PLUGIN', 'b6b0ad7a-hosted-by-tenantry'];
const PROTOCOL_VERSION = 1;
const MAX_MESSAGE = 4 << 20; // bytes, in both directions
const MAX_CALL_SECONDS = 60;

const KINDS = { refused: 1, not_ready: 2, throttled: 3, down: 4, broken: 5, unknown: 6 };

// Outcome is the error of a failed call: why it failed, and what is known about its effect. kind is
// one of KINDS. code is the published error code of a refusal. detail is shown to callers, and
// cause to operators. Neither contains a secret, customer data or text of the provider. retryAfter
// is the wait that the provider asks for, in seconds.
class Outcome extends Error {
  constructor(kind, cause, detail, { code = '', retryAfter = 0 } = {}) {
    super(`${kind} (${cause}): ${detail}`);
    Object.assign(this, { kind, cause, detail, code, retryAfter });
  }
}

const refused = (code, cause, detail) => new Outcome('refused', cause, detail, { code });

// misconfigured returns the outcome for a connection with an invalid setting or secret.
const misconfigured = (setting, text) => refused('invalid_request', `setting ${setting}`, `${setting}: ${text}`);

// credentialRefused returns the outcome for a credential that the provider does not accept, or that
// does not allow the call.
const credentialRefused = (cause) => refused('access_denied', cause, 'the provider does not take the credential, or it does not allow this');

// requestRefused returns the outcome for a refusal that has no error code of its own. The request
// changed nothing.
const requestRefused = (cause) => refused('provider_error', cause, 'the provider refused this');

// brokenAnswer returns the outcome for an answer that is not valid or reports an internal error.
const brokenAnswer = (cause) => new Outcome('broken', cause, 'the provider answered with an error');

// unknownEffect returns the outcome for a call that may or may not have had an effect.
const unknownEffect = (cause) => new Outcome('unknown', cause, 'the provider did not answer in time');

// main runs the plugin. service describes the gRPC service of the plugin's kind: its file, its
// name, and the methods that call the provider. connect(connection) returns the provider for one
// call. simulator starts the simulated provider and returns its ready line. The options of
// simulator are name, port, data (the folder for its state) and world (the URL of the sandbox).
async function main(service, description, connect, simulator) {
  const name = path.basename(process.argv[1]);
  const args = process.argv.slice(2);
  if (args.length === 0 && process.env[COOKIE[0]] === COOKIE[1]) {
    return serve(service, description, connect);
  }
  if (args[0] === 'describe' && args.length === 1) {
    console.log(JSON.stringify(description, null, 2));
  } else if ((args[0] === '--version' || args[0] === 'version') && args.length === 1) {
    console.log(description.name, description.version);
  } else if (args[0] === 'simulate') {
    return simulate(description.name, simulator, args.slice(1));
  } else {
    console.error(`${name} is a plugin of tenantry, which starts it when it is needed.\n` +
      `By hand: ${name} describe | simulate --listen 127.0.0.1:0 --data DIR | --version`);
    process.exitCode = 2;
  }
}

// log writes a line to the host's log. The host removes the secrets of the calls in progress.
function log(level, message, fields) {
  process.stderr.write(JSON.stringify({ '@level': level, '@message': message, ...fields }) + '\n');
}

// exitWithHost ends the process when standard input ends. The host keeps standard input open as
// long as it runs.
function exitWithHost() {
  const input = fs.fstatSync(0);
  if (input.isFIFO() || input.isSocket()) {
    process.stdin.on('end', () => process.exit(0)).on('error', () => process.exit(0)).resume();
  }
}

function serve(service, description, connect) {
  // Service managers signal all processes of a service. The host ends this process when it is not
  // needed any more.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => {});
  exitWithHost();
  if (!(process.env.PLUGIN_PROTOCOL_VERSIONS || '').split(',').includes(String(PROTOCOL_VERSION))) {
    console.error('the host does not support protocol version', PROTOCOL_VERSION);
    fs.writeSync(1, `1|${PROTOCOL_VERSION}|unix||grpc|\n`); // the host reads the version
    process.exit(1);
  }
  const grpc = require('@grpc/grpc-js');
  const { key, certificate, der } = require('./tenantry-certificate.js').create();
  const server = new grpc.Server({
    'grpc.max_receive_message_length': MAX_MESSAGE, 'grpc.max_send_message_length': MAX_MESSAGE,
  });
  addServices(grpc, server, service, description, connect);
  const socket = path.join(process.env.PLUGIN_UNIX_SOCKET_DIR, 'plugin.sock');
  const credentials = grpc.ServerCredentials.createSsl(
    Buffer.from(process.env.PLUGIN_CLIENT_CERT), [{ private_key: Buffer.from(key), cert_chain: Buffer.from(certificate) }], true);
  server.bindAsync('unix:' + socket, credentials, (error) => {
    if (error) {
      console.error('the plugin cannot listen on its socket');
      process.exit(1);
    }
    const announced = der.toString('base64').replace(/=+$/, '');
    process.stdout.write(`1|${PROTOCOL_VERSION}|unix|${socket}|grpc|${announced}\n`);
    // The host reads one line of standard output only.
    globalThis.console = new console.Console(process.stderr, process.stderr);
  });
}

// addServices adds the services of a plugin: health, controller, Plugin, and the service of its
// kind.
function addServices(grpc, server, service, description, connect) {
  const messages = require('@grpc/proto-loader').loadSync(['plugins/proto/plugin.proto', service.file], {
    includeDirs: [path.join(__dirname, 'messages')], keepCase: true, longs: Number, defaults: true,
  });
  const outcomeType = messages['tenantry.plugin.v1.Outcome'];
  const method = (run) => (call, answer) => {
    answerCall(description, connect, call, run).then((message) => answer(null, message), (failure) => {
      const metadata = new grpc.Metadata();
      metadata.set('grpc-status-details-bin', status(outcomeType, failure));
      answer({ code: grpc.status.FAILED_PRECONDITION, details: failure.kind, metadata });
    });
  };
  server.addService(rawService('/grpc.health.v1.Health/Check'), { call: (_, answer) => answer(null, Buffer.from([0x08, 0x01])) }); // SERVING
  server.addService(rawService('/plugin.GRPCController/Shutdown'), {
    call: (_, answer) => {
      answer(null, Buffer.alloc(0));
      server.tryShutdown(() => process.exit(0));
    },
  });
  const { ShareWaits, ...plugin } = messages['tenantry.plugin.v1.Plugin']; // this plugin has no ShareWaits
  server.addService(plugin, { Describe: (_, answer) => answer(null, toMessage(description)) });
  const methods = Object.entries(service.methods).map(([name, run]) => [name, method(run)]);
  server.addService(messages[service.name], Object.fromEntries(methods));
}

// rawService returns the definition of a service with one method, `call`, whose messages are bytes.
function rawService(path) {
  const raw = (bytes) => bytes;
  return {
    call: {
      path, requestStream: false, responseStream: false,
      requestSerialize: raw, requestDeserialize: raw, responseSerialize: raw, responseDeserialize: raw,
    },
  };
}

// answerCall runs a call of a provider. It fails only with an Outcome.
async function answerCall(description, connect, call, run) {
  const { connection } = call.request;
  const requestID = String(call.metadata.get('x-request-id')[0] || '');
  const secondsLeft = secondsUntil(call.getDeadline());
  try {
    const secrets = {};
    for (const [name, value] of Object.entries(connection?.secrets ?? {})) secrets[name] = value.toString();
    const provider = connect({ settings: connection?.settings ?? {}, secrets });
    const hosts = hostsOf(description.hosts ?? [], connection?.settings, secrets);
    return await run(provider, { secondsLeft, requestID, hosts }, call.request);
  } catch (error) {
    if (error instanceof Outcome) throw error;
    // The message of the error may contain a secret, and the stack begins with the message.
    const stack = String(error?.stack).split('\n').filter((line) => line.startsWith('    at ')).join('\n');
    log('error', 'call failed', { request_id: requestID, type: error?.constructor?.name, stack });
    throw new Outcome('broken', 'plugin_unclassified', 'the plugin returned an error it did not classify');
  }
}

// secondsUntil returns a function that returns the seconds until a deadline, or until
// MAX_CALL_SECONDS from now if the deadline is later. A call without a deadline has the deadline
// Infinity.
function secondsUntil(deadline) {
  const end = Math.min(Number(deadline), Date.now() + MAX_CALL_SECONDS * 1000);
  return () => (end - Date.now()) / 1000;
}

// hostsOf returns the hosts of a description. A field in braces stands for the host in its value. A
// secret that is not a URL is a token or a password, and contains no host. A value with a pattern
// adds no host, because an account must not allow more than one host.
function hostsOf(named, settings, secrets) {
  const urls = Object.entries(secrets).filter(([, value]) => value.includes('://'));
  const fields = { ...settings, ...Object.fromEntries(urls) };
  return named.map((name) => {
    if (!name.startsWith('{')) return name.toLowerCase();
    const host = hostIn(fields[name.slice(1, -1)] ?? '');
    return host.includes('*') ? '' : host;
  });
}

// hostIn returns the host in a URL, in host:port, or in a value that is only a host. For any other
// value, it returns an empty text.
function hostIn(value) {
  const [text] = value.trim().split('#'); // the part after the # can be a token
  if (net.isIPv6(text)) return `[${text}]`; // as URL writes it
  const url = text.includes('://') ? text : `http://${text}`;
  return URL.canParse(url) ? new URL(url).hostname : '';
}

// toMessage converts a description from the form that `describe` prints.
function toMessage(description) {
  const budgets = (description.budgets ?? []).map(({ window_seconds: seconds, ...budget }) => ({ ...budget, window: duration(seconds) }));
  const needs = Object.fromEntries(Object.entries(description.needs ?? {}).map(([capability, names]) => [capability, { names }]));
  return { ...description, budgets, needs };
}

// timestamp converts a Date to a google.protobuf.Timestamp. fromTimestamp converts a Timestamp to a
// Date.
const timestamp = (date) => ({ seconds: Math.floor(date.getTime() / 1000), nanos: (date.getTime() % 1000) * 1e6 });
const fromTimestamp = ({ seconds, nanos }) => new Date(seconds * 1000 + Math.floor(nanos / 1e6));

function duration(seconds) {
  return { seconds: Math.floor(seconds), nanos: Math.round((seconds % 1) * 1e9) };
}

// status returns a google.rpc.Status with the outcome as its detail.
function status(outcomeType, failure) {
  const outcome = outcomeType.serialize({
    kind: KINDS[failure.kind], code: failure.code, detail: failure.detail, cause: failure.cause,
    ...(failure.retryAfter > 0 ? { retry_after: duration(failure.retryAfter) } : {}),
  });
  const any = Buffer.concat([field(1, Buffer.from('type.googleapis.com/tenantry.plugin.v1.Outcome')), field(2, outcome)]);
  return Buffer.concat([Buffer.from([0x08, 9]), field(2, Buffer.from(failure.kind)), field(3, any)]);
}

// field encodes a field of bytes in the format of protobuf.
function field(number, content) {
  const head = [(number << 3) | 2];
  let length = content.length;
  for (; length > 0x7f; length >>>= 7) head.push((length & 0x7f) | 0x80);
  return Buffer.concat([Buffer.from([...head, length]), content]);
}

// simulate runs the simulated provider until standard input ends.
async function simulate(name, simulator, args) {
  let options;
  try {
    options = parseArgs({ args, options: { listen: { type: 'string', default: '127.0.0.1:0' }, data: { type: 'string' }, world: { type: 'string', default: '' } } }).values;
    if (!options.data) throw new Error('--data is missing');
    if (!/^(127\.0\.0\.1|localhost):\d+$/.test(options.listen)) throw new Error('a simulator listens on a loopback address only');
  } catch (error) {
    console.error('simulate:', error.message);
    process.exitCode = 2;
    return;
  }
  process.on('SIGTERM', () => process.exit(0));
  exitWithHost();
  console.log(JSON.stringify(await simulator({ name, port: Number(options.listen.split(':')[1]), data: options.data, world: options.world })));
}

module.exports = { Outcome, misconfigured, credentialRefused, requestRefused, brokenAnswer, unknownEffect, secondsUntil, hostsOf, timestamp, fromTimestamp, main };
