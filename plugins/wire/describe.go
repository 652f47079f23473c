// SPDX-License-Identifier: Apache-2.0

// Package wire is the only code that knows how host and plugin talk: gRPC
// messages, the handshake, and the conversions to the ports' types.
package wire

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/secret"
)

// Kind is what a plugin provides.
type Kind string

// The kinds of plugins.
const (
	KindMail    Kind = "mail"
	KindDNS     Kind = "dns"
	KindSending Kind = "sending"
)

// Description is what a plugin says of itself.
type Description struct {
	Name         string // the provider's id, as in microsoft365
	Kind         Kind
	Version      string
	Title        string // for people, as in "Microsoft 365"
	Capabilities []string
	// Needs are the fields that a capability needs: of an account's credential
	// those that were given, of the operator's settings those that are neither
	// empty nor "false". A capability without needs is there for everybody.
	Needs       map[string][]string
	Fields      []Field
	NameServers []string // DNS: patterns of the name servers it recognises
	Budgets     []Budget
	// FaultDomain says what fails together: the provider as a whole when it
	// is empty, FaultCredential where each credential has a server of its own.
	FaultDomain string
}

// FaultCredential is the fault domain of a provider that is another server for
// each credential.
const FaultCredential = "credential"

// AuthHosts is the operator's setting of a sending platform that names the
// hosts, separated by commas, to which its authorization URLs may lead. Its
// default in the description is what the provider declares.
const AuthHosts = "auth_hosts"

// Field is a setting or credential field. The host reads the setting `login_url`
// of provider microsoft365 from TENANTRY_PROVIDERS_MICROSOFT365_LOGIN_URL and
// the secret `client_secret` from the file that
// TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_SECRET_FILE names.
type Field struct {
	Name     string
	Secret   bool
	Required bool
	Default  string
	Help     string
	// Account fields come with a connection of an account; the others are
	// the operator's, and no account can set them.
	Account bool
}

// Budget is a limit of the provider: at most Limit calls in Window for each
// value of Key ("tenant", "credential", "egress").
type Budget struct {
	Key    string
	Limit  int
	Window time.Duration
	// Costs is what one call of an operation (DNS: "check", "zone",
	// "records", "apply") counts, where that is not 1: the requests that it
	// makes as a rule.
	Costs map[string]int
	// Only are the operations that count; all when it is empty.
	Only []string
}

// Cost is what one call of an operation counts.
func (b Budget) Cost(operation string) int {
	if len(b.Only) > 0 && !slices.Contains(b.Only, operation) {
		return 0
	}
	return max(b.Costs[operation], 1)
}

// Connection carries settings and secrets with each call. They live no longer
// than the call.
type Connection struct {
	Settings map[string]string
	Secrets  map[string]secret.Text
}

// FieldsOf are the fields that an account gives with its connection, or those
// that the operator sets.
func (d Description) FieldsOf(account bool) []Field {
	var of []Field
	for _, f := range d.Fields {
		if f.Account == account {
			of = append(of, f)
		}
	}
	return of
}

// Join makes the connection of one account at one provider: each field comes
// from whom it belongs to, whatever else the other one gave, and from its
// default when neither did.
func (d Description) Join(operator, account Connection) Connection {
	joined := Connection{Settings: map[string]string{}, Secrets: map[string]secret.Text{}}
	for _, f := range d.Fields {
		from := operator
		if f.Account {
			from = account
		}
		if f.Secret {
			if text := from.Secrets[f.Name]; !text.Empty() {
				joined.Secrets[f.Name] = text
			}
		} else if value := cmp.Or(from.Settings[f.Name], f.Default); value != "" {
			joined.Settings[f.Name] = value
		}
	}
	return joined
}
