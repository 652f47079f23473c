// SPDX-License-Identifier: Apache-2.0

// The format of zone files (RFC 1035, 5.1), which most DNS providers use for the contents of
// records. Authors do not change this file.
//
// A value of a record set is a Buffer. A TXT value is its text without quotes, a CNAME or NS value
// is a name without the final dot, and an MX value is "preference host".
'use strict';

const { brokenAnswer } = require('./tenantry-plugin.js');

const MAX_STRING = 255; // bytes of one string of a TXT record

// readContent returns the value of a record whose content is in the format of zone files. It throws
// an outcome for a malformed TXT content, and for an MX content without a preference.
function readContent(type, content) {
  if (type === 'TXT') return unquoteText(content);
  if (type === 'CNAME' || type === 'NS') return Buffer.from(plainName(content));
  if (type === 'MX') {
    const [, preference, host] = /^\s*(\S+) +(\S.*?)\s*$/.exec(content) ?? [];
    if (!host) throw brokenAnswer('mx_without_preference');
    return Buffer.from(`${preference} ${plainName(host)}`);
  }
  return Buffer.from(content);
}

// writeContent returns a value in the format of zone files. It is the inverse of readContent.
function writeContent(type, value) {
  if (type === 'TXT') return quoteText(value);
  if (['CNAME', 'NS', 'MX'].includes(type)) return value.toString().replace(/\.$/, '') + '.';
  return value.toString();
}

// quoteText returns a text as quoted strings, each for at most 255 bytes of the text. Each byte
// that is not printable ASCII is written as its number, such as \195.
function quoteText(value) {
  const quote = (part) => `"${[...part].map(escapeByte).join('')}"`;
  return split(value).map(quote).join(' ');
}

// unquoteText returns the joined strings of a TXT content. Content that does not begin with a quote
// is the text itself. unquoteText throws an outcome if quotes or escapes are malformed.
function unquoteText(content) {
  if (!content.startsWith('"')) return Buffer.from(content);
  const strings = /"((?:[^"\\]|\\.)*)"[ \t]*/gsy;
  const parts = [];
  while (strings.lastIndex < content.length) {
    const string = strings.exec(content);
    if (!string) throw brokenAnswer('malformed_text');
    parts.push(withoutEscapes(string[1]));
  }
  return Buffer.concat(parts);
}

// plainName returns a name in lower case without the final dot. The root stays ".".
const plainName = (name) => name.toLowerCase().replace(/\.$/, '') || '.';

// split splits a text into parts of at most MAX_STRING bytes, after a space if possible.
function split(value) {
  const parts = [];
  let rest = value;
  while (rest.length > MAX_STRING) {
    const cut = rest.lastIndexOf(0x20, MAX_STRING - 1) + 1 || MAX_STRING;
    parts.push(rest.subarray(0, cut));
    rest = rest.subarray(cut);
  }
  return [...parts, rest];
}

function escapeByte(byte) {
  const character = String.fromCharCode(byte);
  if (character === '"' || character === '\\') return `\\${character}`;
  return byte >= 0x20 && byte <= 0x7e ? character : `\\${String(byte).padStart(3, '0')}`;
}

function withoutEscapes(string) {
  const escapes = /\\([0-9]{3})|\\([^0-9])|([^\\]+)/gsuy;
  const parts = [];
  while (escapes.lastIndex < string.length) {
    const [, number, escaped, plain] = escapes.exec(string) ?? [];
    if ((number ?? escaped ?? plain) === undefined || Number(number) > 255) throw brokenAnswer('malformed_text');
    parts.push(number ? Buffer.from([Number(number)]) : Buffer.from(escaped ?? plain));
  }
  return Buffer.concat(parts);
}

module.exports = { readContent, writeContent, quoteText, unquoteText, plainName };
