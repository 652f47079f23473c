// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
)

// dnsDesk is what a command needs that calls DNS providers.
type dnsDesk struct {
	store     *bunstore.Store
	providers *providers
	service   *dnsconnections.Service
}

// withDNSProviders runs a command that calls DNS providers, without a service.
func withDNSProviders(act func(context.Context, *cobra.Command, dnsDesk) error) func(*cobra.Command, []string) error {
	return withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) (err error) {
		c, err := settings.Load(cmd.Flags(), nil)
		if err != nil {
			return cli.Usage(err)
		}
		// A keyset that is made here would be another one than the service's
		// on a server, and what it seals be lost there.
		embedded := strings.HasPrefix(c.DatabaseURL, "sqlite:")
		sealer, err := openKeyset(ctx, c, store, embedded)
		if err != nil {
			return err
		}
		providers, closeAll, err := openProviders(ctx, c, sealer, commandLog(cmd, c.Level()))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeAll()) }()
		return act(ctx, cmd, dnsDesk{store, providers, &dnsconnections.Service{
			Connections: store, Providers: providers, Sealer: sealer, Now: time.Now,
		}})
	})
}

// What an operator does about a connection that does not pass its test.
const (
	fixRefused  = "give a credential that the provider takes, with the rights that it needs"
	fixSettings = "correct the field: a secret in the file of --credential-file, any other with --set"
	fixPlugin   = "`tenantry doctor` says what is wrong with the plugin"
	fixTooLarge = "the same would come again: let the credential reach fewer zones, or smaller ones"
	fixAway     = "can this machine reach the provider? run the command again in some minutes"
	// A stored credential is not changed.
	fixStored = "; to do so, add the connection anew and remove this one"
)

// notAdded says why a connection was not added. What the plugin sees to make no
// sense is a mistake in the command; nobody was asked.
func notAdded(provider string, err error) error {
	var o *outcome.Error
	if errors.As(err, &o) && o.Kind == outcome.Refused && strings.HasPrefix(o.Cause, outcome.CauseSetting) {
		return cli.WithFix(cli.Usage(errors.New(o.Detail)), fixSettings)
	}
	said, fix := failedTest(provider, err)
	if said == nil {
		return err
	}
	said.Detail += "; nothing is stored"
	return cli.WithFix(cli.Outside(said), fix)
}

// testFailed says why a stored connection did not pass its test.
func testFailed(provider string, err error) error {
	var lost dnsconnections.Unreadable
	if errors.As(err, &lost) {
		return cli.WithFix(err, "put the keyset that it was sealed with back, from a backup, or add the connection anew and remove this one")
	}
	said, fix := failedTest(provider, err)
	if said == nil {
		return err
	}
	if errors.Is(said, fault.CredentialRejected) || fix == fixSettings {
		fix += fixStored
	}
	return cli.WithFix(cli.Outside(said), fix)
}

// failedTest is what the provider's answer means, and what helps; nil when
// there was none.
func failedTest(provider string, err error) (*fault.Error, string) {
	var o *outcome.Error
	if !errors.As(err, &o) {
		return nil, ""
	}
	refusal, fix := fault.Of(err), fixAway
	switch {
	case errors.Is(err, fault.CredentialRejected):
		fix = fixRefused
	case o.Cause == "private_address":
		fix = "use the server's public address; for a server in your own network set TENANTRY_PROVIDERS_" +
			strings.ToUpper(provider) + "_ALLOW_PRIVATE=true, for the service too"
	case errors.Is(err, fault.InvalidRequest):
		fix = fixSettings
	case outcome.TooLarge(err):
		fix = fixTooLarge
	case strings.HasPrefix(o.Cause, "plugin_"):
		fix = fixPlugin
	}
	return &fault.Error{Code: refusal.Code, Detail: "the test of the connection failed: " + cmp.Or(o.Detail, refusal.Detail)}, fix
}
