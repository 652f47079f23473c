// SPDX-License-Identifier: Apache-2.0

// HTTP calls to a provider, with the outcome of each failure. Authors do not change this file.
//
// If the description names hosts, a request goes only to these hosts. A request follows no
// redirect, uses no proxy of the environment, and reads answers of a limited size.
'use strict';

const http = require('node:http');
const https = require('node:https');
const { Outcome, brokenAnswer, unknownEffect } = require('./tenantry-plugin.js');

const MAX_ANSWER = 8 << 20; // bytes
const MAX_SECONDS = 15; // for one request
const MAX_WAIT = 3600; // seconds; a longer Retry-After is probably a mistake of the provider

const waits = new Map(); // for each scope: until when its calls must wait, in milliseconds of performance.now()

// request sends a request, and returns the status, the headers, and the answer decoded from JSON.
// scope names the calls that wait together after a Retry-After, usually those of one credential.
// request fails with an outcome if the host is not allowed, if the scope must wait, if there is no
// complete answer, if a body is not JSON, and for the statuses 408, 429, and 500 or higher.
async function request(call, scope, method, url, headers, body) {
  checkHost(call.hosts, new URL(url).hostname);
  checkWait(scope);
  const left = Math.min(MAX_SECONDS, call.secondsLeft());
  if (left <= 0) throw unknownEffect('no_answer');
  const answer = await exchange(left, method, url, headers, body);
  throwFor(scope, answer.status, answer.headers);
  try {
    return { ...answer, body: answer.content.length > 0 ? JSON.parse(answer.content.toString()) : undefined };
  } catch {
    throw brokenAnswer('not_json');
  }
}

// checkHost throws an outcome for a host that the description does not name. An empty list allows
// all hosts.
function checkHost(hosts, host) {
  const named = hosts.some((h) => h === host || (h.startsWith('*.') && host.endsWith(h.slice(1))));
  if (hosts.length > 0 && !named) throw new Outcome('broken', 'host_not_named', 'the plugin may not connect to this host');
}

function exchange(seconds, method, url, headers, body) {
  return new Promise((resolve, reject) => {
    let connected = false;
    const cut = () => (connected
      ? unknownEffect('connection_cut')
      : new Outcome('down', 'unreachable', 'the provider cannot be reached'));
    const secure = url.startsWith('https:');
    const sent = (secure ? https : http).request(url, { method, agent: false, headers: { 'Content-Type': 'application/json', ...headers } });
    const timer = setTimeout(() => sent.destroy(unknownEffect('no_answer')), seconds * 1000);
    const fail = (error) => {
      clearTimeout(timer);
      sent.destroy();
      reject(error instanceof Outcome ? error : cut());
    };
    sent.on('socket', (socket) => socket.once(secure ? 'secureConnect' : 'connect', () => { connected = true; }));
    sent.on('error', fail);
    sent.on('response', (answer) => {
      const parts = [];
      let size = 0;
      answer.on('error', fail);
      answer.on('data', (part) => {
        size += part.length;
        parts.push(part);
        if (size > MAX_ANSWER) fail(new Outcome('broken', 'answer_too_large', "the provider's answer is too large"));
      });
      answer.on('end', () => {
        clearTimeout(timer);
        resolve({ status: answer.statusCode, headers: answer.headers, content: Buffer.concat(parts) });
      });
    });
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

function throwFor(scope, status, headers) {
  const retryAfter = secondsOf(headers['retry-after'] ?? '');
  const cause = `status ${status}`;
  if (retryAfter > 0 && (status === 429 || status === 503)) {
    waits.set(scope, Math.max(waits.get(scope) ?? 0, performance.now() + retryAfter * 1000));
  }
  if (status === 429) throw new Outcome('throttled', cause, 'the provider wants us to wait', { retryAfter });
  if (status === 503) throw new Outcome('down', cause, 'the provider is out of service', { retryAfter });
  if (status === 408 || status === 504) throw unknownEffect(cause);
  if (status >= 500) throw brokenAnswer(cause);
}

// secondsOf returns the seconds that a Retry-After asks for, at most MAX_WAIT. The text is a number
// or a date. For an invalid text, secondsOf returns 0.
function secondsOf(text) {
  if (/^\d+$/.test(text)) return Math.min(Number(text), MAX_WAIT);
  return Math.max(0, Math.min((Date.parse(text) - Date.now()) / 1000, MAX_WAIT)) || 0;
}

// checkWait throws an outcome while the calls of a scope have to wait.
function checkWait(scope) {
  for (const [name, until] of waits) if (until <= performance.now()) waits.delete(name);
  if (waits.has(scope)) {
    const retryAfter = (waits.get(scope) - performance.now()) / 1000;
    throw new Outcome('throttled', 'held_back', 'the provider wants us to wait', { retryAfter });
  }
}

// member returns a member of a JSON object in an answer. The type is 'string', 'number', 'boolean',
// 'array', or 'date' for a text with a time. It throws an outcome if the answer has no such member
// of this type.
function member(object, name, type) {
  const value = object?.[name];
  if (type === 'date' && typeof value === 'string' && !Number.isNaN(Date.parse(value))) return new Date(value);
  if (type === 'array' ? !Array.isArray(value) : typeof value !== type) throw brokenAnswer('wrong_shape');
  return value;
}

module.exports = { request, member, secondsOf };
