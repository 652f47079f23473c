// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// plantedSendingBug is a bug that one check of the contract suite must find. operation is the
// operation with the bug. plant puts the bug into an environment. After that, the test routes all
// calls through the plugin protocol.
type plantedSendingBug struct {
	operation string
	plant     func(*SendingPlatformEnv)
}

// sendingBug returns the bug that brokenSendings has under this name.
func sendingBug(operation, name string) plantedSendingBug {
	return plantedSendingBug{operation, func(env *SendingPlatformEnv) {
		env.Platform = brokenSendings()[name](env.Platform.(*fake.SendingPlatform))
	}}
}

// customSendingBug returns a bug that is not one of brokenSendings.
func customSendingBug(operation string, b brokenSending) plantedSendingBug {
	return plantedSendingBug{operation, func(env *SendingPlatformEnv) {
		b.SendingPlatform = env.Platform.(*fake.SendingPlatform)
		env.Platform = b
	}}
}

// listingBug returns a bug that changes pages of accounts.
func listingBug(change func(*integration.Page)) plantedSendingBug {
	return customSendingBug("accounts", brokenSending{accounts: func(_ string, p integration.Page, err error) (integration.Page, error) {
		change(&p)
		return p, err
	}})
}

// uncancellableSending is a platform whose Check continues after its caller's context has ended.
type uncancellableSending struct{ ports.SendingPlatform }

func (s uncancellableSending) Check(ctx context.Context) (integration.Reach, error) {
	return s.SendingPlatform.Check(context.WithoutCancel(ctx))
}

// unknownAsDown reports an unknown outcome as down.
var unknownAsDown = replaceCheckError(outcome.Unknown, &outcome.Error{Kind: outcome.Down})

// plantedSendingBugs has a bug for each check of the contract suite, keyed by the id of the check.
var plantedSendingBugs = map[string]plantedSendingBug{
	"sending/credential/reaches-workspace": sendingBug("check", "reaches no workspace"),
	"sending/credential/rejected":          {anyOperation, func(env *SendingPlatformEnv) { env.Refused = env.Platform }},
	"sending/credential/ended-plan":        sendingBug("accounts", "reports an ended plan as a rejected key"),
	"sending/credential/workspaces": {"check", func(env *SendingPlatformEnv) {
		env.WithWorkspaces = func(T, int) ports.SendingPlatform { return env.Platform }
	}},
	"sending/accounts/found":           sendingBug("account", "is case-sensitive"),
	"sending/accounts/similar-address": sendingBug("account", "finds similar addresses"),
	"sending/accounts/special-characters": customSendingBug("account", brokenSending{account: func(_ context.Context, address string, a integration.Account, err error) (integration.Account, error) {
		if strings.Contains(address, "+") { // the platform gets a space instead of the +
			a = integration.Account{}
		}
		return a, err
	}}),
	"sending/accounts/states": sendingBug("account", "reports every account as connected"),
	"sending/list/empty":      sendingBug("accounts", "lists pages without an end"),
	"sending/list/one":        listingBug(func(p *integration.Page) { p.Accounts = p.Accounts[min(1, len(p.Accounts)):] }),
	"sending/list/full-page": listingBug(func(p *integration.Page) {
		if len(p.Accounts) == 100 {
			p.Accounts = p.Accounts[:99]
		}
	}),
	"sending/list/many":          sendingBug("accounts", "lists the last account of a page twice"),
	"sending/list/repeated-page": sendingBug("accounts", "takes a repeated page for the end"),
	"sending/sign-in/link":       sendingBug("start_sign_in", "sessions have no expiry"),
	"sending/sign-in/foreign-host": customSendingBug("start_sign_in", brokenSending{start: func(s integration.SignIn, err error) (integration.SignIn, error) {
		if outcome.KindOf(err) == outcome.Broken {
			s.URL, err = "https://login.microsoftonline.com.evil.example/x", nil
		}
		return s, err
	}}),
	"sending/sign-in/account":           sendingBug("account", "never changes the stamp"),
	"sending/sign-in/other-person":      sendingBug("sign_in", "forgets who signed in"),
	"sending/sign-in/declined":          sendingBug("sign_in", "declines without a reason"),
	"sending/sign-in/expired":           sendingBug("sign_in", "reports every sign-in as succeeded"),
	"sending/capabilities/missing":      {"start_sign_in", func(env *SendingPlatformEnv) { env.Lesser = env.Platform }},
	"sending/remove/twice":              sendingBug("remove", "refuses a second removal"),
	"sending/remove/lost-answer":        sendingBug("remove", "reports a removal with an unknown outcome as done"),
	"sending/remove/html-page":          sendingBug("remove", "reports a broken answer to a removal as done"),
	"sending/failures/throttled":        sendingBug("check", "loses Retry-After"),
	"sending/failures/down":             sendingBug("check", "reports down as broken"),
	"sending/failures/broken":           sendingBug("check", "reports broken as refused"),
	"sending/failures/html-page":        sendingBug("check", "reports broken as refused"),
	"sending/failures/half-an-answer":   sendingBug("check", "reports broken as refused"),
	"sending/failures/unexpected-shape": sendingBug("check", "reports broken as refused"),
	"sending/failures/redirect":         sendingBug("check", "reports broken as refused"),
	"sending/failures/endless-answer":   sendingBug("check", "reports broken as refused"),
	"sending/failures/lost-answer":      customSendingBug("check", brokenSending{check: unknownAsDown}),
	"sending/failures/lost-request":     customSendingBug("check", brokenSending{check: unknownAsDown}),
	"sending/failures/nothing-listens":  {anyOperation, func(env *SendingPlatformEnv) { env.Absent = env.Refused }},
	"sending/sign-in/lost-start": customSendingBug("start_sign_in", brokenSending{start: func(s integration.SignIn, err error) (integration.SignIn, error) {
		return s, replaceKind(err, outcome.Unknown, &outcome.Error{Kind: outcome.Down})
	}}),
	"sending/failures/deadline": customSendingBug("check", brokenSending{check: func(ctx context.Context, r integration.Reach, err error) (integration.Reach, error) {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = &outcome.Error{Kind: outcome.Down}
		}
		return r, err
	}}),
	"sending/failures/cancelled": {"check", func(env *SendingPlatformEnv) { env.Platform = uncancellableSending{env.Platform} }},
}

// TestEachSendingCheckFindsItsPlantedBug checks that each check of sending platforms passes without
// its planted bug and fails with it.
func TestEachSendingCheckFindsItsPlantedBug(t *testing.T) {
	for _, check := range sendingChecks() {
		bug, ok := plantedSendingBugs[check.ID]
		if !ok {
			t.Errorf("no planted bug shows that %s can fail", check.ID)
			continue
		}
		t.Run(check.ID, func(t *testing.T) {
			t.Parallel()
			for _, plant := range []func(*SendingPlatformEnv){nil, bug.plant} {
				synctest.Test(t, func(t *testing.T) {
					env, calls := fakeSendingEnvs()["all capabilities"](), &operationLog{}
					if plant != nil {
						plant(&env)
					}
					for _, platform := range []*ports.SendingPlatform{&env.Platform, &env.Refused, &env.Absent, &env.Lesser} {
						*platform = wire.SendingInProcess(*platform, calls.record)
					}
					workspaces := env.WithWorkspaces
					env.WithWorkspaces = func(t T, n int) ports.SendingPlatform {
						return wire.SendingInProcess(workspaces(t, n), calls.record)
					}
					if failed := checkFails(t, func(t T) { check.Run(t, env) }); failed != (plant != nil) {
						t.Errorf("with the bug: %v, the check fails: %v, want a failure only with the bug", plant != nil, failed)
					}
					if plant != nil && !calls.has(bug.operation) {
						t.Errorf("the check did not call %s, only %v", bug.operation, calls.operations)
					}
				})
			}
		})
	}
	if len(plantedSendingBugs) != len(sendingChecks()) {
		t.Errorf("%d planted bugs for %d checks, want one for each", len(plantedSendingBugs), len(sendingChecks()))
	}
}
