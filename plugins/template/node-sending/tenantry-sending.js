// SPDX-License-Identifier: Apache-2.0

// The rules that hold for every sending platform. Authors do not change this file.
//
// An account has id, address, name, state, paused, has_error, reason and stamp. The state is
// connected, pending, failed or other. The stamp changes whenever the mailbox is signed in again. A
// session has id, url and expires_at, a Date. The state of its progress is pending, succeeded,
// failed or expired.
'use strict';

const { Outcome, timestamp } = require('./tenantry-plugin.js');

// service is the gRPC service of a sending platform. Each method calls a method of the platform.
const service = {
  file: 'plugins/proto/sending.proto',
  name: 'tenantry.plugin.v1.SendingPlatform',
  methods: {
    Check: (platform, call) => platform.check(call),
    Account: async (platform, call, { address }) => (await platform.account(call, address)) ?? {},
    Accounts: (platform, call, { cursor }) => platform.accounts(call, cursor),
    StartSignIn: async (platform, call, { address }) => {
      const session = await platform.startSignIn(call, address);
      return { ...session, url: Buffer.from(session.url), expires_at: session.expires_at && timestamp(session.expires_at) };
    },
    SignIn: (platform, call, { session }) => platform.signIn(call, session),
    Remove: async (platform, call, { account }) => (await platform.remove(call, account)) ?? {},
  },
};

// planInactive returns the outcome for a valid key of an account whose plan has ended.
const planInactive = () => new Outcome('refused', 'plan_inactive', 'the account at the provider has no active plan', { code: 'access_denied' });

// notSupported returns the outcome for an operation that the platform, or this key, does not
// support.
const notSupported = (capability) => new Outcome('refused', `no ${capability}`, 'the provider cannot do this, or not with this credential', { code: 'capability_not_supported' });

// sameAddress reports whether two mail addresses are equal. It ignores only the case of ASCII
// letters.
function sameAddress(a, b) {
  const fold = (address) => address.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
  return fold(a) === fold(b);
}

// signInLink reports whether a link leads to one of the hosts by https. http is also allowed for
// loopback addresses, which only tests configure.
function signInLink(link, hosts) {
  if (typeof link !== 'string' || !URL.canParse(link)) return false;
  const { protocol, host, hostname, username, password } = new URL(link);
  const loopback = /^127(\.\d+){3}$|^\[::1\]$/.test(hostname);
  return hosts.includes(host) && !username && !password && (protocol === 'https:' || (protocol === 'http:' && loopback));
}

module.exports = { service, planInactive, notSupported, sameAddress, signInLink };
