// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	version     = "0.1.0"
	callTimeout = 15 * time.Second
)

func description() sdk.Description {
	return sdk.Description{
		Name: "emailbison", Kind: "sending", Version: version, Title: "EmailBison",
		Capabilities: []string{sdk.CanRefresh, sdk.CanDisconnect},
		Hosts:        []string{"{instance_url}", "{api_key}"},
		Fields: []sdk.Field{
			{Name: "api_key", Account: true, Required: true, Secret: true, Help: "token of the type api-user, alone or as https://instance#token"},
			{Name: "instance_url", Account: true, Help: "URL of the customer's EmailBison, such as https://send.example.com; not needed if api_key contains it"},
			{Name: "workspace_id", Account: true, Help: "id of the workspace to which the token must belong"},
			{Name: "allow_private", Default: "false", Help: "call instances on private addresses too, and on loopback by http; for test systems"},
		},
		// The limit of 3,000 calls per minute for an instance is an assumption (see README.md). All
		// tokens of the instance share this limit, so the budget of one credential is lower.
		Budgets: []sdk.Budget{{
			Key: "credential", Limit: 10, Window: time.Second,
			// The usual number of requests: GET /users and one more. A call of accounts reads GET
			// /users only for the first and the last page of the list, so it costs 1.
			Costs: map[string]int{"check": 2, "account": 2, "remove": 2},
		}},
		FaultDomain: sdk.FaultCredential, // each instance is a separate server
	}
}

// processState has the state that all connections of the process share. The HTTP client public
// connects only to public addresses, private to all addresses.
type processState struct {
	public, private *http.Client
	waits           *sdk.Waits // pauses after a Retry-After, keyed by sdk.KeyScope
}

func newProcessState() *processState {
	return &processState{
		public: sdk.NewGuardedHTTPClient(callTimeout, false), private: sdk.NewGuardedHTTPClient(callTimeout, true), waits: sdk.NewWaits(nil),
	}
}

// platform implements sdk.SendingPlatform for one token of one instance.
type platform struct {
	http              *http.Client
	instance          string // scheme and host, such as https://send.example.com
	token             sdk.Secret
	expectedWorkspace string // the id of the expected workspace, empty if any workspace is accepted
}

// newPlatform returns the platform of a connection. It fails if a setting or the credential is
// invalid. It sends no request.
func (s *processState) newPlatform(connection sdk.Connection) (sdk.SendingPlatform, error) {
	allowPrivate, err := strconv.ParseBool(cmp.Or(connection.Settings["allow_private"], "false"))
	if err != nil {
		return nil, sdk.Misconfigured("allow_private", "it must be true or false")
	}
	p := &platform{http: s.public, expectedWorkspace: connection.Settings["workspace_id"]}
	if allowPrivate {
		p.http = s.private
	}
	p.instance, p.token, err = readCredential(connection, allowPrivate)
	if err != nil {
		return nil, err
	}
	p.http = s.waits.Client(p.http, sdk.KeyScope(p.instance, p.token))
	return p, nil
}
