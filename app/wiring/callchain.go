// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"github.com/tenantry/tenantry/adapters/breaker"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// callChain has the measurement and the circuit breaker that all calls to a provider share.
type callChain struct {
	measure  wire.Interceptor
	circuits *breaker.Breaker
}

// newCallChain builds the call chain of a provider. It fails when the metrics cannot be registered.
func newCallChain(c settings.Config, provider string, describe describeFunc, counters ports.Limiter, log *slog.Logger) (callChain, error) {
	measure, err := telemetry.NewCallInterceptor(telemetry.CallOptions{Provider: provider, Log: log, CustomerData: c.TraceCustomerData})
	return callChain{measure, breaker.New(breaker.Options{
		Provider: provider, Log: log, OpenTime: c.CircuitOpen, Budget: budgets{provider, describe, counters}.spend,
	})}, err
}

// accountCallTimeout limits each call that uses the credential of an account. The account may have
// chosen a server that accepts connections and never answers.
const accountCallTimeout = 20 * time.Second

// interceptors returns the interceptors of calls that use the operator's credential. A call passes
// them in this order: the measurement, the circuit breaker with the budgets, the failpoints of
// tests.
func (c callChain) interceptors(faultDomain breaker.FaultDomain) []wire.Interceptor {
	return []wire.Interceptor{c.measure, c.circuits.Interceptor(faultDomain), failpointInterceptor}
}

// mailInterceptors returns the interceptors of calls to the mail platform:
// invalidSettingInterceptor, then those of interceptors, with a circuit for each tenant and one for
// the login host.
func (c callChain) mailInterceptors() []wire.Interceptor {
	return append([]wire.Interceptor{invalidSettingInterceptor}, c.interceptors(breaker.ByTenant)...)
}

// invalidSettingInterceptor is a wire.Interceptor for the mail platform. It replaces the plugin's
// error about an invalid setting by service_unavailable, which OperatorConnection returns for a
// missing setting. The reason is that the operator, and not the caller, must correct the setting.
func invalidSettingInterceptor(ctx context.Context, _ wire.Call, next func(context.Context) error) error {
	err := next(ctx)
	var invalid *outcome.Error
	if !outcome.IsInvalidSetting(err) || !errors.As(err, &invalid) {
		return err
	}
	return &outcome.Error{
		Kind: invalid.Kind, Code: fault.ServiceUnavailable, Cause: invalid.Cause, RetryAfter: unusableProviderRetry,
		Detail: "a setting of the mail platform is missing or invalid",
	}
}

// accountInterceptors returns the interceptors of calls that use the credential of an account. A
// call passes them in this order: the measurement, the timeout, the circuit breaker with the
// budgets, the failpoints of tests.
func (c callChain) accountInterceptors(faultDomain breaker.FaultDomain) []wire.Interceptor {
	return []wire.Interceptor{c.measure, wire.Timeout(accountCallTimeout), c.circuits.Interceptor(faultDomain), failpointInterceptor}
}

// failpointInterceptor is a wire.Interceptor with a failpoint before each call and a failpoint
// after each successful call. Tests use failpoints to kill the process.
func failpointInterceptor(ctx context.Context, c wire.Call, next func(context.Context) error) error {
	failpoint.Before(c.Operation)
	err := next(ctx)
	if err == nil {
		failpoint.After(c.Operation)
	}
	return err
}

// providerOptions are the dependencies of DNSProviders and sendingPlatforms. The settings are
// passed separately.
type providerOptions struct {
	host          *pluginhost.Host
	counters      ports.Limiter       // counts calls against the providers' budgets
	fingerprinter ports.Fingerprinter // names credentials in budgets and circuits
	log           *slog.Logger
	files         *CredentialFiles                  // the operator's credentials
	secrets       map[string]map[string]secret.Text // credentials of the sandbox, by provider and field; may be nil
	nameServers   func(provider string) []string    // the name servers of the sandbox; may be nil
}

// operatorConnections returns a Connections with the operator's settings and credential files.
func (o providerOptions) operatorConnections(c settings.Config) Connections {
	return Connections{Settings: c.Providers, secrets: o.secrets, Files: o.files, Describe: o.host.Describe}
}

// newCallChains builds a call chain for each provider of a kind. The key of the result is the
// provider's name.
func newCallChains(c settings.Config, o providerOptions, kind wire.Kind) (map[string]callChain, error) {
	chains := map[string]callChain{}
	for _, name := range o.host.Names(kind) {
		chain, err := newCallChain(c, name, o.host.Describe, o.counters, o.log)
		if err != nil {
			return nil, err
		}
		chains[name] = chain
	}
	return chains, nil
}

// fingerprintFunc returns the fingerprint of the credential in a connection.
type fingerprintFunc func(wire.Connection) string

// newFingerprintFunc returns a fingerprintFunc for the providers of one kind. The fingerprint is
// the name of a credential in the keys of circuits and budgets. Redis stores these keys, so the
// fingerprint is a keyed hash, which reveals nothing about the credential. Equal credentials have
// the same fingerprint in all accounts. A rotation of the keyset changes all fingerprints. If the
// hash cannot be computed, the fingerprint is empty.
func newFingerprintFunc(o providerOptions, kind wire.Kind) fingerprintFunc {
	return func(c wire.Connection) string {
		sum, err := o.fingerprinter.Fingerprint([]byte(c.Fingerprint()))
		if err != nil {
			o.log.Error("credentials of this kind of provider share circuits and budgets, because no fingerprint could be computed", "kind", kind, "error", err)
		}
		return hex.EncodeToString(sum)
	}
}

// describeFunc returns the description of a provider's plugin.
type describeFunc func(ctx context.Context, provider string) (wire.Description, error)
