// SPDX-License-Identifier: Apache-2.0

// Package wire implements the protocol between the host and a plugin process: the handshake, the
// clients and servers, and the conversions between gRPC messages and the types of package ports.
// Only this package, the generated code in plugins/proto and tests import gRPC or protobuf.
//
// On the host's side, Start returns a Process. MailClient, DNSClient and SendingClient return
// implementations of interfaces in package ports. Their methods call a Process. On the plugin's
// side, Serve answers these calls with the author's code.
//
//   - description.go: Description, Field and Budget, which a plugin sends to the host, and
//     Connection, which the host sends with each call. descriptiondoc.go: the description as the
//     JSON that the command `describe` prints.
//   - handshake.go: the protocol version and the gRPC options that both sides share.
//   - serve.go: Serve, the plugin's side. Read this file or process.go first.
//   - process.go: Process, a running plugin. runner.go: how its process is started and killed.
//     runner_linux.go: the attributes of that process. runner_other.go: the attributes on other
//     systems, where no limits apply.
//   - mailclient.go, mailserver.go, dns.go, sending.go: one client and one server for each
//     interface.
//   - chain.go: Interceptor, which runs around each call of a client. answers.go: the check of each
//     answer.
//   - fence.go: Fence, which runs each write of a client inside a guard.
//   - inprocess.go: clients that call a provider in the same process.
//   - hosts.go: the hosts that a plugin may connect to.
//   - limits.go, limits_linux.go: Limits, the limits of what a plugin's processes may use.
//   - certificate.go: the certificate of the host.
//   - waits.go: ShareWaits, the stream on which a plugin shares its waits. A wait is a pause that
//     the provider has asked for with Retry-After.
//   - outcome.go: how errors cross the connection.
//   - convert.go: the conversions.
package wire

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"maps"
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/platform"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/proto"
)

// Kind is the kind of service that a plugin provides.
type Kind string

// The kinds of plugins.
const (
	KindMail    Kind = "mail"
	KindDNS     Kind = "dns"
	KindSending Kind = "sending"
)

// Description is what a plugin tells the host about itself.
type Description struct {
	Name         string // the provider's id, such as microsoft365
	Kind         Kind
	Version      string
	Title        string // for people, as in "Microsoft 365"
	Capabilities []string
	// Needs maps a capability of a sending platform to the names of the fields that it requires. An
	// account's field must be set. An operator's setting must not be empty or "false". A capability
	// that is not in the map requires no field.
	Needs       map[string][]string
	Fields      []Field
	NameServers []string // for DNS: patterns of the name servers that belong to the provider
	Budgets     []Budget
	// FaultDomain determines which calls to a sending platform share a circuit breaker: all calls
	// if it is empty, or the calls with the same credential if it is FaultCredential. It has no
	// effect for other kinds of plugins: each tenant of a mail platform and each credential of a
	// DNS provider has its own breaker.
	FaultDomain string
	// MailPlatform is only for mail platforms.
	MailPlatform platform.Facts
	// Hosts are the hosts to which the HTTP clients and dialers of the SDK may connect during a
	// call. An entry is a host such as api.acme.com, a pattern such as *.acme.com, or a field in
	// braces such as {api_url}. A field in braces stands for the host in the field's value. The
	// value of a secret field contains a host only if it is a URL. If Hosts is empty, all hosts are
	// allowed.
	Hosts []string
}

// FaultCredential is the fault domain of a platform that has its own server for each credential.
const FaultCredential = "credential"

// AuthHosts is the name of an operator's setting for a sending platform. The value lists the hosts
// of the platform's authorization URLs, separated by commas or white space. The plugin's
// description contains the default value.
const AuthHosts = "auth_hosts"

// Field is a setting or a secret of a connection. If the operator sets the field, the host reads it
// from the host's settings file or from the environment. For example, the variable
// TENANTRY_PROVIDERS_MICROSOFT365_LOGIN_URL sets the setting `login_url` of provider microsoft365.
// TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_SECRET_FILE names the file that contains the secret
// `client_secret`.
type Field struct {
	Name     string
	Secret   bool
	Required bool
	Default  string
	Help     string
	// Account is true if an account sets the field in its connection. Only the operator sets the
	// other fields.
	Account bool
}

// Budget is a rate limit of the provider: at most Limit requests in Window for each tenant,
// credential or egress address. Key selects one of the three: "tenant", "credential" or "egress".
type Budget struct {
	Key    string
	Limit  int
	Window time.Duration
	// Costs maps an operation to the number of requests that one call of it usually makes. The
	// operations of a DNS provider are "check", "zone", "records" and "apply". The default is 1.
	// The host counts a number over 100 as 100.
	Costs map[string]int
	// Only is the list of the operations that count against the budget. If Only is empty, all
	// operations count.
	Only []string
}

// maxCost is the maximum cost of a call. The host counts a cost of n as n separate requests, so a
// higher cost would make every call slow and take much memory.
const maxCost = 100

// Cost returns how many requests a call of the operation counts as, at most maxCost. It returns 0
// if the operation does not count against the budget.
func (b Budget) Cost(operation string) int {
	if len(b.Only) > 0 && !slices.Contains(b.Only, operation) {
		return 0
	}
	return min(max(b.Costs[operation], 1), maxCost)
}

// Connection has the settings and secrets of one call. The host sends them with each call, and a
// plugin must not keep them after the call.
type Connection struct {
	Settings map[string]string
	Secrets  map[string]secret.Text
}

// OfAccount and OfOperator are the possible arguments of Description.FieldsOf.
const (
	OfAccount  = true
	OfOperator = false
)

// FieldsOf returns the fields that an account sets (OfAccount) or that the operator sets
// (OfOperator).
func (d Description) FieldsOf(account bool) []Field {
	var fields []Field
	for _, f := range d.Fields {
		if f.Account == account {
			fields = append(fields, f)
		}
	}
	return fields
}

// Join returns the connection of one account to one provider. Fields of the account are taken only
// from account, and fields of the operator only from operator. An empty setting gets its default.
func (d Description) Join(operator, account Connection) Connection {
	joined := Connection{Settings: map[string]string{}, Secrets: map[string]secret.Text{}}
	for _, f := range d.Fields {
		source := operator
		if f.Account {
			source = account
		}
		if f.Secret {
			if text := source.Secrets[f.Name]; !text.Empty() {
				joined.Secrets[f.Name] = text
			}
		} else if value := cmp.Or(source.Settings[f.Name], f.Default); value != "" {
			joined.Settings[f.Name] = value
		}
	}
	return joined
}

// Fingerprint returns the SHA-256, in hex, of all settings and secrets. It identifies a connection
// without revealing its secrets. A plugin can use the fingerprint as the key of data that it keeps
// between calls.
func (c Connection) Fingerprint() string {
	hash := sha256.New()
	hashField(hash, "settings", len(c.Settings))
	for _, name := range slices.Sorted(maps.Keys(c.Settings)) {
		hashField(hash, name, len(c.Settings[name]))
		hash.Write([]byte(c.Settings[name]))
	}
	hashField(hash, "secrets", len(c.Secrets))
	for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
		value := c.Secrets[name].Reveal()
		hashField(hash, name, len(value))
		hash.Write([]byte(value))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// hashField writes a name and the length of the value that follows. Because of the lengths, two
// different connections never produce the same bytes.
func hashField(h hash.Hash, name string, length int) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(name)))
	h.Write(size[:])
	h.Write([]byte(name))
	binary.BigEndian.PutUint64(size[:], uint64(length))
	h.Write(size[:])
}

func connectionToProto(c Connection) *proto.Connection {
	message := &proto.Connection{Settings: c.Settings, Secrets: make(map[string][]byte, len(c.Secrets))}
	for name, value := range c.Secrets {
		message.Secrets[name] = []byte(value.Reveal())
	}
	return message
}

func connectionFromProto(c *proto.Connection) Connection {
	connection := Connection{
		Settings: maps.Clone(c.GetSettings()),
		Secrets:  make(map[string]secret.Text, len(c.GetSecrets())),
	}
	for name, value := range c.GetSecrets() {
		connection.Secrets[name] = secret.New(string(value))
	}
	return connection
}
