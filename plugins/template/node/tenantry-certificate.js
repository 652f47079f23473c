// SPDX-License-Identifier: Apache-2.0

// The certificate of a plugin process. Authors do not change this file. Node.js creates keys and
// signatures, but no certificates. This file encodes a certificate in DER (RFC 5280).
'use strict';

const crypto = require('node:crypto');

const DAY = 24 * 3600 * 1000;

// create returns a new key as PEM, and its certificate as PEM and DER. The key is on the curve
// P-256.
function create() {
  const { publicKey, privateKey } = crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const algorithm = sequence(oid('1.2.840.10045.4.3.2')); // ecdsa-with-SHA256
  const name = sequence(element(0x31, sequence(oid('2.5.4.3'), element(0x0c, Buffer.from('localhost')))));
  const serial = crypto.randomBytes(16);
  serial[0] = (serial[0] & 0x3f) | 0x40; // positive, with 16 bytes
  const now = Date.now();
  const extensions = sequence(
    extension('2.5.29.17', sequence(element(0x82, Buffer.from('localhost')))), // subject alternative name
    extension('2.5.29.37', sequence(oid('1.3.6.1.5.5.7.3.1'))), // extended key usage: server
    extension('2.5.29.19', sequence(element(0x01, Buffer.from([0xff]))))); // basic constraints: CA
  const body = sequence(
    element(0xa0, element(0x02, Buffer.from([2]))), // version 3
    element(0x02, serial), algorithm, name,
    sequence(time(now - 60000), time(now + 3650 * DAY)),
    name, publicKey.export({ type: 'spki', format: 'der' }), element(0xa3, extensions));
  const signature = crypto.sign('sha256', body, privateKey);
  const der = sequence(body, algorithm, element(0x03, Buffer.concat([Buffer.from([0]), signature])));
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    certificate: `-----BEGIN CERTIFICATE-----\n${der.toString('base64').replace(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`,
    der,
  };
}

function element(tag, content) {
  const length = content.length < 0x80 ? [content.length] : content.length < 0x100 ? [0x81, content.length] : [0x82, content.length >> 8, content.length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...length]), content]);
}

function sequence(...parts) {
  return element(0x30, Buffer.concat(parts));
}

function extension(id, value) {
  return sequence(oid(id), element(0x04, value));
}

function oid(text) {
  const [first, second, ...rest] = text.split('.').map(Number);
  const bytes = [first * 40 + second];
  for (const number of rest) {
    const digits = [number & 0x7f];
    for (let left = number >>> 7; left > 0; left >>>= 7) digits.unshift((left & 0x7f) | 0x80);
    bytes.push(...digits);
  }
  return element(0x06, Buffer.from(bytes));
}

// time encodes a GeneralizedTime, or a UTCTime before 2050 as RFC 5280 requires.
function time(milliseconds) {
  const text = new Date(milliseconds).toISOString().replace(/[-:T]|\.\d+/g, ''); // 20270131120000Z
  return text < '2050' ? element(0x17, Buffer.from(text.slice(2))) : element(0x18, Buffer.from(text));
}

module.exports = { create };
