// SPDX-License-Identifier: Apache-2.0

// Package ports defines the interfaces through which the use cases reach the outside: stores,
// providers, the queue and cryptography. Adapters implement them.
//
// Methods that do I/O take a context. A read changes nothing. A write at a provider may be
// repeated, unless its comment says otherwise. A provider call that fails returns an
// *outcome.Error. After the words "fails with", a comment names the fault codes, errors or outcome
// kinds that the method returns.
//
// Start reading at MailPlatform (mailplatform.go) and Tenants (tenants.go). The files are:
//
//   - Providers: a plugin implements the interface of mailplatform.go, dnsprovider.go or
//     sendingplatform.go. dnsproviders.go lists the DNS providers that have plugins. dns.go reads
//     the public DNS.
//   - Stored objects: accounts.go, keys.go, tenants.go, domains.go, mailboxes.go, connectflows.go,
//     connectsessions.go, integrations.go, dnsconnections.go, webhooks.go and events.go.
//     removals.go removes domains, mailboxes and send limits.
//   - Send limits: sendlimits.go stores limits and blocks, and claims the tenants to count.
//     enforcement.go is the log of blocks. sendhealth.go summarizes counting and blocking.
//     sendcapacity.go stores the data for the headroom of a tenant.
//   - Provisioning: dnsruns.go stores runs and jobs. dnswrites.go stores the values that tenantry
//     wrote to zones.
//   - Each request: request.go defines the values that the context of a request carries.
//     idempotency.go stores the answers of writes. audit.go stores the audit entries.
//   - Tools: queue.go wakes jobs, limiter.go counts requests, secrets.go encrypts.
//
// The directory contract contains the test suites that adapters must pass. The directory failpoint
// lets tests kill the process at a call.
package ports
