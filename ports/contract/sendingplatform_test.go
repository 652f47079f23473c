// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// fakeSending returns the fake sending platform p as a SendingPlatformEnv.
func fakeSending(platform *fake.SendingPlatform) SendingPlatformEnv {
	env := SendingPlatformEnv{
		Platform: platform, Refused: fake.RefusingSendingPlatform(), Absent: fake.UnreachableSendingPlatform(), Secrets: []string{"a-key-of-the-fake"},
		WithWorkspaces: fakeWithWorkspaces, Sessions: !platform.Sessionless, AuthHosts: []string{"login.microsoftonline.com"},
		AccountStates: []integration.Account{
			{State: integration.AccountConnected}, {State: integration.AccountConnected, Paused: true},
			{State: integration.AccountConnected, HasError: true, Reason: "sending_error"}, {State: integration.AccountPending},
			{State: integration.AccountFailed, HasError: true, Reason: "connection_error"}, {State: integration.AccountOther},
		},
		Put: func(_ T, accounts ...integration.Account) { platform.Put(accounts...) },
		Held: func(T) []string {
			var addresses []string
			for _, a := range platform.AllAccounts() {
				addresses = append(addresses, a.Address)
			}
			return addresses
		},
		Unpaid: func(T) { platform.SetPlanEnded(true) },
		Fail:   func(_ T, failure Failure) func() { return failSending(platform, failure) },
	}
	for _, capability := range []string{integration.CanOAuth, integration.CanRefresh, integration.CanDisconnect} {
		if !slices.Contains(platform.MissingCapabilities, capability) {
			env.Can = append(env.Can, capability)
		}
	}
	if env.hasCapability(integration.CanOAuth) {
		env.SignIn = func(_ T, at integration.SignIn, address string) {
			platform.CompleteSignIn(at.URL, address, "Anna Schmidt")
		}
		env.Decline = func(_ T, at integration.SignIn) { platform.DenySignIn(at.URL) }
		env.Expire = func(_ T, at integration.SignIn) { platform.ExpireSignIn(at.URL) }
		env.Lesser = &fake.SendingPlatform{Reach: platform.Reach, MissingCapabilities: []string{integration.CanOAuth}}
	}
	return env
}

// fakeWithWorkspaces returns a fake whose credential reaches this number of workspaces.
func fakeWithWorkspaces(_ T, workspaces int) ports.SendingPlatform {
	platform := fake.NewSendingPlatform()
	platform.Reach.Workspaces = nil
	for i := range workspaces {
		platform.Reach.Workspaces = append(platform.Reach.Workspaces, integration.Workspace{ID: string(rune('a' + i)), Name: "One of several"})
	}
	return platform
}

// failSending makes the fake fail until lift is called.
func failSending(platform *fake.SendingPlatform, failure Failure) (lift func()) {
	switch failure {
	case Hangs:
		gates := map[*fake.Gate]bool{}
		for _, method := range []string{"Check", "Account", "Accounts", "StartSignIn", "SignIn", "Remove"} {
			gates[platform.Hold(method)] = true
		}
		return func() {
			for gate := range gates {
				gate.Release()
			}
		}
	case RepeatsFirstPage:
		return platform.Fail(fake.Fault{Method: "Accounts", Skip: 1, Kind: outcome.Broken})
	}
	kinds := map[Failure]outcome.Kind{
		Throttles: outcome.Throttled, IsDown: outcome.Down, LosesRequest: outcome.Unknown, LosesAnswer: outcome.Unknown,
	}
	kind, known := kinds[failure]
	if !known {
		kind = outcome.Broken
	}
	return platform.Fail(fake.Fault{Kind: kind, AfterEffect: failure == LosesAnswer})
}

// fakeSendingEnvs returns functions that open platforms with different capabilities, keyed by a
// description.
func fakeSendingEnvs() map[string]func() SendingPlatformEnv {
	envOf := func(configure func(*fake.SendingPlatform)) func() SendingPlatformEnv {
		return func() SendingPlatformEnv {
			platform := fake.NewSendingPlatform()
			configure(platform)
			return fakeSending(platform)
		}
	}
	return map[string]func() SendingPlatformEnv{
		"all capabilities": envOf(func(*fake.SendingPlatform) {}),
		"no sessions":      envOf(func(platform *fake.SendingPlatform) { platform.Sessionless = true }),
		"no sign-in": envOf(func(platform *fake.SendingPlatform) {
			platform.MissingCapabilities, platform.Sessionless = []string{integration.CanOAuth}, true
		}),
		"no removal": envOf(func(platform *fake.SendingPlatform) {
			platform.MissingCapabilities = []string{integration.CanDisconnect}
		}),
	}
}

func TestFakeSendingPlatformKeepsTheContract(t *testing.T) {
	for name, open := range fakeSendingEnvs() {
		t.Run(name, func(t *testing.T) {
			SendingPlatform(t, func(T) SendingPlatformEnv { return open() })
		})
	}
}

// TestIncompleteSendingPlatformEnvFails checks that the suite fails with an incomplete
// SendingPlatformEnv. It must not skip checks without notice.
func TestIncompleteSendingPlatformEnvFails(t *testing.T) {
	for name, makeIncomplete := range map[string]func(*SendingPlatformEnv){
		"no secrets":                             func(env *SendingPlatformEnv) { env.Secrets = nil },
		"no function that signs in":              func(env *SendingPlatformEnv) { env.SignIn = nil },
		"no hosts of sign-in links":              func(env *SendingPlatformEnv) { env.AuthHosts = nil },
		"no function that declines a sign-in":    func(env *SendingPlatformEnv) { env.Decline = nil },
		"no function that lets a sign-in expire": func(env *SendingPlatformEnv) { env.Expire = nil },
		"no account state that works":            func(env *SendingPlatformEnv) { env.AccountStates = env.AccountStates[1:] },
		"no function that causes failures":       func(env *SendingPlatformEnv) { env.Fail = nil },
		"a sign-in that Can does not list":       func(env *SendingPlatformEnv) { env.Can = env.Can[1:] },
	} {
		env := fakeSendingEnvs()["all capabilities"]()
		makeIncomplete(&env)
		if !checkFails(t, env.requireComplete) {
			t.Errorf("%s: the suite accepts the environment", name)
		}
	}
}

// errWithKey is an error whose text contains the secret of the fake.
var errWithKey = errors.New("the key a-key-of-the-fake is not accepted")

// brokenSending wraps a sending platform and changes its results. A nil field keeps the fake's
// behaviour.
type brokenSending struct {
	*fake.SendingPlatform
	check    func(context.Context, integration.Reach, error) (integration.Reach, error)
	account  func(context.Context, string, integration.Account, error) (integration.Account, error)
	accounts func(string, integration.Page, error) (integration.Page, error)
	start    func(integration.SignIn, error) (integration.SignIn, error)
	signIn   func(integration.Progress, error) (integration.Progress, error)
	remove   func(context.Context, string, error) error
}

func (b brokenSending) Check(ctx context.Context) (integration.Reach, error) {
	r, err := b.SendingPlatform.Check(ctx)
	if b.check != nil {
		return b.check(ctx, r, err)
	}
	return r, err
}

func (b brokenSending) Account(ctx context.Context, address string) (integration.Account, error) {
	a, err := b.SendingPlatform.Account(ctx, address)
	if b.account != nil {
		return b.account(ctx, address, a, err)
	}
	return a, err
}

func (b brokenSending) Accounts(ctx context.Context, cursor string) (integration.Page, error) {
	p, err := b.SendingPlatform.Accounts(ctx, cursor)
	if b.accounts != nil {
		return b.accounts(cursor, p, err)
	}
	return p, err
}

func (b brokenSending) StartSignIn(ctx context.Context, address string) (integration.SignIn, error) {
	s, err := b.SendingPlatform.StartSignIn(ctx, address)
	if b.start != nil {
		return b.start(s, err)
	}
	return s, err
}

func (b brokenSending) SignIn(ctx context.Context, session string) (integration.Progress, error) {
	p, err := b.SendingPlatform.SignIn(ctx, session)
	if b.signIn != nil {
		return b.signIn(p, err)
	}
	return p, err
}

func (b brokenSending) Remove(ctx context.Context, account string) error {
	err := b.SendingPlatform.Remove(ctx, account)
	if b.remove != nil {
		return b.remove(ctx, account, err)
	}
	return err
}

// replaceCheckError returns a check that replaces the errors of one outcome kind.
func replaceCheckError(kind outcome.Kind, replacement error) func(context.Context, integration.Reach, error) (integration.Reach, error) {
	return func(_ context.Context, r integration.Reach, err error) (integration.Reach, error) {
		return r, replaceKind(err, kind, replacement)
	}
}

// similarAccount returns the first account whose address contains the requested address.
func similarAccount(p *fake.SendingPlatform, address string) integration.Account {
	for _, a := range p.AllAccounts() {
		if strings.Contains(strings.ToLower(a.Address), strings.ToLower(address)) {
			return a
		}
	}
	return integration.Account{}
}

// brokenSendings returns wrappers of a sending platform that break one promise each, keyed by a
// description of the fault.
func brokenSendings() map[string]func(*fake.SendingPlatform) ports.SendingPlatform {
	wrap := func(b brokenSending) func(*fake.SendingPlatform) ports.SendingPlatform {
		return func(p *fake.SendingPlatform) ports.SendingPlatform {
			b.SendingPlatform = p
			return b
		}
	}
	return map[string]func(*fake.SendingPlatform) ports.SendingPlatform{
		"reaches no workspace": wrap(brokenSending{check: func(_ context.Context, _ integration.Reach, err error) (integration.Reach, error) {
			return integration.Reach{}, err
		}}),
		"reports an ended plan as a rejected key": wrap(brokenSending{accounts: func(_ string, p integration.Page, err error) (integration.Page, error) {
			if errors.Is(err, fault.AccessDenied) {
				err = &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied}
			}
			return p, err
		}}),
		"loses Retry-After":           wrap(brokenSending{check: replaceCheckError(outcome.Throttled, &outcome.Error{Kind: outcome.Throttled})}),
		"reports down as broken":      wrap(brokenSending{check: replaceCheckError(outcome.Down, &outcome.Error{Kind: outcome.Broken})}),
		"reports broken as refused":   wrap(brokenSending{check: replaceCheckError(outcome.Broken, &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied})}),
		"repeats its key in an error": wrap(brokenSending{check: replaceCheckError(outcome.Down, errors.Join(&outcome.Error{Kind: outcome.Down}, errWithKey))}),
		"outlives its deadline": wrap(brokenSending{check: func(ctx context.Context, r integration.Reach, err error) (integration.Reach, error) {
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return r, ctx.Err()
			}
			return r, err
		}}),
		"is case-sensitive": func(p *fake.SendingPlatform) ports.SendingPlatform {
			return brokenSending{SendingPlatform: p, account: func(_ context.Context, address string, a integration.Account, err error) (integration.Account, error) {
				if a.Address != address {
					return integration.Account{}, err
				}
				return a, err
			}}
		},
		"finds similar addresses": func(p *fake.SendingPlatform) ports.SendingPlatform {
			return brokenSending{SendingPlatform: p, account: func(_ context.Context, address string, a integration.Account, err error) (integration.Account, error) {
				if err == nil {
					a = similarAccount(p, address)
				}
				return a, err
			}}
		},
		"an absent account is an error": wrap(brokenSending{account: func(_ context.Context, _ string, a integration.Account, err error) (integration.Account, error) {
			if err == nil && !a.Exists() {
				err = &outcome.Error{Kind: outcome.Refused, Code: fault.MailboxNotFound}
			}
			return a, err
		}}),
		"reports every account as connected": wrap(brokenSending{account: func(_ context.Context, _ string, a integration.Account, err error) (integration.Account, error) {
			if a.Exists() {
				a.State = integration.AccountConnected
			}
			return a, err
		}}),
		"lists no account as paused": wrap(brokenSending{accounts: func(_ string, p integration.Page, err error) (integration.Page, error) {
			for i := range p.Accounts {
				p.Accounts[i].Paused = false
			}
			return p, err
		}}),
		"lists only the first page": wrap(brokenSending{accounts: func(_ string, p integration.Page, err error) (integration.Page, error) {
			p.Next = ""
			return p, err
		}}),
		"lists the last account of a page twice": wrap(brokenSending{accounts: func(_ string, p integration.Page, err error) (integration.Page, error) {
			if p.Next != "" {
				p.Accounts = append(p.Accounts, p.Accounts[len(p.Accounts)-1])
			}
			return p, err
		}}),
		"takes a repeated page for the end": wrap(brokenSending{accounts: func(cursor string, p integration.Page, err error) (integration.Page, error) {
			if cursor != "" && outcome.KindOf(err) == outcome.Broken {
				err = nil
			}
			return p, err
		}}),
		"lists pages without an end": wrap(brokenSending{accounts: func(_ string, p integration.Page, err error) (integration.Page, error) {
			p.Next = "1"
			return p, err
		}}),
		"sign-in links lead to a foreign host": wrap(brokenSending{start: func(s integration.SignIn, err error) (integration.SignIn, error) {
			s.URL = strings.Replace(s.URL, "login.microsoftonline.com", "login.microsoftonline.com.evil.example", 1)
			return s, err
		}}),
		"returns the same link for all sign-ins": wrap(brokenSending{start: func(s integration.SignIn, err error) (integration.SignIn, error) {
			if err == nil {
				s.URL = "https://login.microsoftonline.com/"
			}
			return s, err
		}}),
		"sessions have no expiry": wrap(brokenSending{start: func(s integration.SignIn, err error) (integration.SignIn, error) {
			s.ExpiresAt = time.Time{}
			return s, err
		}}),
		"returns a link with an error": wrap(brokenSending{start: func(s integration.SignIn, err error) (integration.SignIn, error) {
			s.URL = "https://login.microsoftonline.com/x"
			return s, err
		}}),
		"reports every sign-in as succeeded": wrap(brokenSending{signIn: func(p integration.Progress, err error) (integration.Progress, error) {
			p.State = integration.SignInSucceeded
			return p, err
		}}),
		"forgets who signed in": wrap(brokenSending{signIn: func(p integration.Progress, err error) (integration.Progress, error) {
			p.Address = ""
			return p, err
		}}),
		"declines without a reason": wrap(brokenSending{signIn: func(p integration.Progress, err error) (integration.Progress, error) {
			p.Reason = ""
			return p, err
		}}),
		"never changes the stamp": wrap(brokenSending{account: func(_ context.Context, _ string, a integration.Account, err error) (integration.Account, error) {
			if a.Exists() {
				a.Stamp = "always"
			}
			return a, err
		}}),
		"refuses a second removal": func(p *fake.SendingPlatform) ports.SendingPlatform {
			gone := map[string]bool{}
			return brokenSending{SendingPlatform: p, remove: func(_ context.Context, id string, err error) error {
				if err == nil && gone[id] {
					err = &outcome.Error{Kind: outcome.Refused, Code: fault.MailboxNotFound}
				}
				gone[id] = err == nil
				return err
			}}
		},
		"removes all accounts": func(p *fake.SendingPlatform) ports.SendingPlatform {
			return brokenSending{SendingPlatform: p, remove: func(_ context.Context, _ string, err error) error {
				for _, a := range p.AllAccounts() {
					p.DropAccount(a.Address)
				}
				return err
			}}
		},
		"reports a removal with an unknown outcome as done": wrap(brokenSending{remove: func(_ context.Context, _ string, err error) error {
			if outcome.KindOf(err) == outcome.Unknown {
				err = nil
			}
			return err
		}}),
		"reports a broken answer to a removal as done": wrap(brokenSending{remove: func(_ context.Context, _ string, err error) error {
			if outcome.KindOf(err) == outcome.Broken {
				err = nil
			}
			return err
		}}),
	}
}

// requireSendingDetected requires that a check of the suite fails after breakPromise changed the
// environment.
func requireSendingDetected(t *testing.T, open func() SendingPlatformEnv, breakPromise func(*SendingPlatformEnv)) {
	t.Helper()
	requireDetected(t, sendingChecks(), func() SendingPlatformEnv {
		env := open()
		breakPromise(&env)
		return env
	})
}

func TestSendingPlatformSuiteDetectsBrokenPromises(t *testing.T) {
	environments := fakeSendingEnvs()
	for name, wrap := range brokenSendings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				requireSendingDetected(t, environments["all capabilities"], func(env *SendingPlatformEnv) { env.Platform = wrap(env.Platform.(*fake.SendingPlatform)) })
			})
		})
	}
	for name, breakPromise := range map[string]func(*SendingPlatformEnv){
		"any credential is accepted":                 func(env *SendingPlatformEnv) { env.Refused = env.Platform },
		"an unreachable platform denies access":      func(env *SendingPlatformEnv) { env.Absent = env.Refused },
		"the lesser credential has all capabilities": func(env *SendingPlatformEnv) { env.Lesser = env.Platform },
		"a credential always reaches one workspace": func(env *SendingPlatformEnv) {
			env.WithWorkspaces = func(T, int) ports.SendingPlatform { return env.Platform }
		},
		"signs in without the capability":                           func(env *SendingPlatformEnv) { env.Can = []string{integration.CanDisconnect} },
		"removes without the capability":                            func(env *SendingPlatformEnv) { env.Can = []string{integration.CanOAuth} },
		"has sessions although the environment says it has none":    func(env *SendingPlatformEnv) { env.Sessions = false },
		"has no sessions although the environment says it has some": func(env *SendingPlatformEnv) { env.Platform.(*fake.SendingPlatform).Sessionless = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { requireSendingDetected(t, environments["all capabilities"], breakPromise) })
		})
	}
}
