// SPDX-License-Identifier: Apache-2.0

// Tests of the files that the plugins of all kinds share. Authors do not change this file.
'use strict';

const assert = require('node:assert/strict');
const http = require('node:http');
const { test } = require('node:test');
const { request, secondsOf } = require('../tenantry-http.js');
const { hostsOf, secondsUntil } = require('../tenantry-plugin.js');

const unanswered = { kind: 'unknown', cause: 'no_answer' };
const callOf = (seconds) => ({ secondsLeft: () => seconds, requestID: '1', hosts: [] });

test('the host of a value', () => {
  for (const [value, host] of [
    ['https://API.Acme.com:8443/v1?x=1', 'api.acme.com'], ['http://[2001:db8::1]:80/', '[2001:db8::1]'], ['2001:db8::1', '[2001:db8::1]'],
    ['192.0.2.1:53', '192.0.2.1'], [' acme.com:443 ', 'acme.com'], ['https://acme.com#token@other.test', 'acme.com'],
    ['https://user:secret@acme.com', 'acme.com'], ['', ''], ['http://[', ''], ['https://', ''],
  ]) {
    assert.deepEqual(hostsOf(['{server}'], { server: value }, {}), [host], value);
  }
});

test('a field in braces stands for its host', () => {
  const settings = { api_url: 'https://one.acme.com/v1', server: 'ns.acme.com:53', pattern: 'https://*.com/v1' };
  const secrets = { instance: 'https://two.acme.com/#key', api_token: 'token.acme.com' };
  const named = ['Fixed.acme.com', '*.Acme.com', '{api_url}', '{server}', '{instance}', '{api_token}', '{missing}', '{pattern}'];
  assert.deepEqual(hostsOf(named, settings, secrets), ['fixed.acme.com', '*.acme.com', 'one.acme.com', 'ns.acme.com', 'two.acme.com', '', '', '']);
  assert.deepEqual(hostsOf([], settings, secrets), []); // does not limit the hosts
});

test('the time of a call', () => {
  const now = Date.now();
  for (const [deadline, seconds] of [[Infinity, 60], [now + 9e15, 60], [new Date(now + 20000), 20], [now, 0], [now - 5000, -5]]) {
    const left = secondsUntil(deadline)();
    assert.ok(left <= seconds + 0.001 + (Date.now() - now) / 1000 && left > seconds - 10, `${deadline}: ${left}`);
  }
});

test('no request is sent after the deadline', async () => {
  for (const left of [0, -1]) { // the port is closed, so a request would be down
    await assert.rejects(request(callOf(left), 'scope', 'GET', 'http://127.0.0.1:1/', {}), unanswered);
  }
});

test('an answer after the deadline is unknown', async (t) => {
  const server = http.createServer(() => {}); // never answers
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  await assert.rejects(request(callOf(0.2), 'scope', 'GET', `http://127.0.0.1:${server.address().port}/`, {}), unanswered);
});

test('a Retry-After is a number or a date', () => {
  const date = (seconds) => new Date(Date.now() + seconds * 1000).toUTCString();
  for (const [text, seconds] of [['7', 7], ['0', 0], ['', 0], ['-5', 0], ['soon', 0], ['²', 0], ['86400', 3600], ['9'.repeat(400), 3600],
    [date(-60), 0], [date(90000), 3600]]) {
    assert.equal(secondsOf(text), seconds, text);
  }
  const soon = secondsOf(date(600));
  assert.ok(soon > 500 && soon <= 600, String(soon));
});
