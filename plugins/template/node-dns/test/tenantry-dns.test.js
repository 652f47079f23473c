// SPDX-License-Identifier: Apache-2.0

// Tests of the files that all DNS providers share. Authors do not change this file.
'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const dns = require('../tenantry-dns.js');
const { Outcome, brokenAnswer, credentialRefused, unknownEffect } = require('../tenantry-plugin.js');
const { plainName, quoteText, readContent, unquoteText, writeContent } = require('../tenantry-zonefile.js');

const ZONE = { id: '1', name: 'customer.test', name_servers: [], idle: '' };
const recordSet = (name, type, values = [], ttl = 300) => ({ name, type, ttl, values: values.map((v) => Buffer.from(v)) });
const outcome = (kind, cause) => ({ kind, cause });
const callOf = (seconds) => ({ secondsLeft: () => seconds, requestID: '1', hosts: [] });

test('texts are quoted', () => {
  for (const [value, content] of [
    ['', '""'], ['v=spf1 -all', '"v=spf1 -all"'], ['a "b" \\ c', '"a \\"b\\" \\\\ c"'],
    [Buffer.from([0, 255]), '"\\000\\255"'], ['x'.repeat(256), `"${'x'.repeat(255)}" "x"`],
    [`${'x'.repeat(250)} ${'y'.repeat(10)}`, `"${'x'.repeat(250)} " "${'y'.repeat(10)}"`],
  ]) {
    assert.equal(quoteText(Buffer.from(value)), content);
    assert.deepEqual(unquoteText(content), Buffer.from(value));
  }
});

test('every byte comes back', () => {
  const bytes = [...Array(256).keys()];
  for (const value of [Buffer.from(bytes), Buffer.from([...bytes, ...bytes, ...bytes].reverse()), Buffer.from('"'.repeat(300)),
    Buffer.from('\\1'.repeat(300)), Buffer.from(' '.repeat(600))]) {
    assert.deepEqual(unquoteText(quoteText(value)), value);
    assert.match(quoteText(value), /^[ -~]*$/);
  }
});

test('the forms of a text are read', () => {
  for (const [content, value] of [['"a" "b"', 'ab'], ['"a"\t"b"', 'ab'], ['"a""b"', 'ab'], ['bare text', 'bare text'], ['', ''],
    ['"a;b\\; \\065\\\\"', 'a;b; A\\'], ['"é\\é😀\\😀"', 'éé😀😀']]) {
    assert.equal(unquoteText(content).toString(), value);
  }
});

test('a malformed text is broken', () => {
  for (const content of ['"open', '"a" b', '"\\', '"\\25"', '"\\256"', '"\\2x5"']) {
    assert.throws(() => unquoteText(content), outcome('broken', 'malformed_text'), content);
  }
});

test('contents become values and back', () => {
  for (const [type, content, value] of [
    ['CNAME', 'target.example.com.', 'target.example.com'], ['MX', '10 mail.example.com.', '10 mail.example.com'], ['MX', '0 .', '0 .'],
    ['NS', 'ns.example.com.', 'ns.example.com'], ['TXT', '"a b"', 'a b'], ['A', '192.0.2.1', '192.0.2.1'],
  ]) {
    assert.equal(readContent(type, content).toString(), value);
    assert.equal(writeContent(type, Buffer.from(value)), content);
  }
  assert.equal(readContent('MX', ' 10  Mail.Customer.test').toString(), '10 mail.customer.test');
  assert.throws(() => readContent('MX', 'mail.example.com.'), outcome('broken', 'mx_without_preference'));
});

test('plain names', () => {
  for (const [name, plain] of [['WWW.Customer.test.', 'www.customer.test'], ['customer.test', 'customer.test'], ['.', '.']]) {
    assert.equal(plainName(name), plain);
  }
});

test('names are the same with a final dot', () => {
  const held = recordSet('WWW.customer.test.', 'TXT', ['x']);
  assert.equal(dns.find([held], 'www.customer.test', 'TXT'), held);
  const change = { before: recordSet('www.customer.test', 'TXT', ['x']), after: recordSet('www.customer.test', 'TXT', ['x', 'y']) };
  dns.checkChanges('Customer.test.', [change]);
  assert.deepEqual(dns.outstanding([held], [change]), [change.after]);
  const alias = recordSet('www.customer.test.', 'CNAME', ['other.test']);
  assert.throws(() => dns.outstanding([held, alias], [change]), outcome('refused', 'zone_changed'));
});

test('changes that no plan contains are refused', () => {
  for (const [name, type, values] of [['customer.test', 'NS', ['x']], ['customer.test.', 'SOA', ['x']], ['elsewhere.test', 'TXT', ['x']],
    ['notcustomer.test', 'TXT', ['x']], ['customer.test', 'txt', ['x']], ['customer.test', '', ['x']], ['www.customer.test', 'CNAME', ['x', 'y']]]) {
    const change = { before: recordSet(name, type), after: recordSet(name, type, values) };
    assert.throws(() => dns.checkChanges('customer.test', [change]), outcome('refused', 'change_not_allowed'), `${name} ${type}`);
  }
  const twice = ['customer.test', 'customer.test.'].map((name) => ({ before: recordSet('customer.test', 'TXT'), after: recordSet(name, 'TXT', ['x']) }));
  assert.throws(() => dns.checkChanges('customer.test', twice), outcome('refused', 'change_not_allowed'));
});

test('a change keeps its TTL', () => {
  const held = recordSet('customer.test', 'TXT', ['a'], 7200);
  const before = recordSet('customer.test', 'TXT', ['a'], 60);
  const after = recordSet('customer.test', 'TXT', ['b'], 60);
  assert.equal(dns.outstanding([held], [{ before, after }])[0].ttl, 7200);
  assert.equal(dns.outstanding([held], [{ before, after: { ...after, ttl: 300 } }])[0].ttl, 300);
});

test('a change ends proxying', () => {
  const plain = recordSet('www.customer.test', 'CNAME', ['other.test']);
  const veiled = { ...plain, veiled: true };
  assert.deepEqual(dns.outstanding([veiled], [{ before: veiled, after: plain }]), [plain]);
  for (const [held, before, after] of [[plain, veiled, plain], [veiled, veiled, veiled], [veiled, plain, plain]]) {
    assert.deepEqual(dns.outstanding([held], [{ before, after }]), []);
  }
});

test('a zone is read after a write', async () => {
  const written = recordSet('a.customer.test', 'TXT', ['x']);
  const providerOf = (records) => ({ records });
  const failing = (error) => providerOf(async () => { throw error; });
  assert.deepEqual(await dns.readBack(providerOf(async () => [written]), callOf(60), ZONE, [written]), [written]);
  for (const [provider, expected] of [
    [providerOf(async () => []), outcome('broken', 'missing_after_write')],
    [failing(credentialRefused('x')), outcome('unknown', 'not_read_back')],
    [failing(new Outcome('throttled', 'x', '')), outcome('unknown', 'not_read_back')],
    [failing(unknownEffect('x')), outcome('unknown', 'x')],
    [failing(brokenAnswer('x')), outcome('broken', 'x')],
  ]) {
    await assert.rejects(dns.readBack(provider, callOf(60), ZONE, [written]), expected);
  }
});

test('an overlap is reported', () => {
  const { kind, cause } = dns.overlapped();
  assert.deepEqual({ kind, cause }, outcome('broken', 'zone_changed_during_write'));
});

test('one writer follows the other', async () => {
  const events = [];
  let second;
  const result = await dns.hold(callOf(60), 'zone', async () => {
    second = dns.hold(callOf(60), 'zone', async () => events.push('second'));
    await assert.rejects(dns.hold(callOf(0.01), 'zone', () => assert.fail('two calls hold the lock')), outcome('unknown', 'no_answer'));
    await dns.hold(callOf(0.01), 'other zone', async () => events.push('other zone'));
    events.push('first');
    return 'result';
  });
  assert.equal(result, 'result');
  await second;
  assert.deepEqual(events, ['other zone', 'first', 'second']);
  await assert.rejects(dns.hold(callOf(60), 'zone', async () => { throw new Error('releases the lock'); }), /releases the lock/);
  await dns.hold(callOf(0.01), 'zone', async () => {});
});
