// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
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

// brokenSending breaks a promise; a nil field keeps the fake's behaviour.
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

// ofKind replaces the outcomes of one kind by another error.
func ofKind(kind outcome.Kind, by error) func(context.Context, integration.Reach, error) (integration.Reach, error) {
	return func(_ context.Context, r integration.Reach, err error) (integration.Reach, error) {
		if outcome.Of(err) == kind {
			return r, by
		}
		return r, err
	}
}

// resembling finds the first account whose address contains the wanted one.
func resembling(p *fake.SendingPlatform, address string) integration.Account {
	for _, a := range p.Held() {
		if strings.Contains(strings.ToLower(a.Address), strings.ToLower(address)) {
			return a
		}
	}
	return integration.Account{}
}

func brokenSendings() map[string]func(*fake.SendingPlatform) ports.SendingPlatform {
	with := func(b brokenSending) func(*fake.SendingPlatform) ports.SendingPlatform {
		return func(p *fake.SendingPlatform) ports.SendingPlatform {
			b.SendingPlatform = p
			return b
		}
	}
	return map[string]func(*fake.SendingPlatform) ports.SendingPlatform{
		"reaches nothing": with(brokenSending{check: func(_ context.Context, _ integration.Reach, err error) (integration.Reach, error) {
			return integration.Reach{}, err
		}}),
		"the plan is a bad key": with(brokenSending{accounts: func(_ string, p integration.Page, err error) (integration.Page, error) {
			if errors.Is(err, fault.AccessDenied) {
				err = &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied}
			}
			return p, err
		}}),
		"forgets when to come back": with(brokenSending{check: ofKind(outcome.Throttled, &outcome.Error{Kind: outcome.Throttled})}),
		"down is broken":            with(brokenSending{check: ofKind(outcome.Down, &outcome.Error{Kind: outcome.Broken})}),
		"broken is refused":         with(brokenSending{check: ofKind(outcome.Broken, &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied})}),
		"quotes its key":            with(brokenSending{check: ofKind(outcome.Down, errors.Join(&outcome.Error{Kind: outcome.Down}, errBare))}),
		"outlives its deadline": with(brokenSending{check: func(ctx context.Context, r integration.Reach, err error) (integration.Reach, error) {
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return r, ctx.Err()
			}
			return r, err
		}}),
		"minds the case": func(p *fake.SendingPlatform) ports.SendingPlatform {
			return brokenSending{SendingPlatform: p, account: func(_ context.Context, address string, a integration.Account, err error) (integration.Account, error) {
				if a.Address != address {
					return integration.Account{}, err
				}
				return a, err
			}}
		},
		"finds what resembles": func(p *fake.SendingPlatform) ports.SendingPlatform {
			return brokenSending{SendingPlatform: p, account: func(_ context.Context, address string, a integration.Account, err error) (integration.Account, error) {
				if err == nil {
					a = resembling(p, address)
				}
				return a, err
			}}
		},
		"an absent account is an error": with(brokenSending{account: func(_ context.Context, _ string, a integration.Account, err error) (integration.Account, error) {
			if err == nil && !a.There() {
				err = &outcome.Error{Kind: outcome.Refused, Code: fault.MailboxNotFound}
			}
			return a, err
		}}),
		"every account works": with(brokenSending{account: func(_ context.Context, _ string, a integration.Account, err error) (integration.Account, error) {
			if a.There() {
				a.State = integration.AccountConnected
			}
			return a, err
		}}),
		"lists states otherwise": with(brokenSending{accounts: func(_ string, p integration.Page, err error) (integration.Page, error) {
			for i := range p.Accounts {
				p.Accounts[i].Paused = false
			}
			return p, err
		}}),
		"lists the first page alone": with(brokenSending{accounts: func(_ string, p integration.Page, err error) (integration.Page, error) {
			p.Next = ""
			return p, err
		}}),
		"lists the last of a page twice": with(brokenSending{accounts: func(_ string, p integration.Page, err error) (integration.Page, error) {
			if p.Next != "" {
				p.Accounts = append(p.Accounts, p.Accounts[len(p.Accounts)-1])
			}
			return p, err
		}}),
		"takes a circle for the end": with(brokenSending{accounts: func(cursor string, p integration.Page, err error) (integration.Page, error) {
			if cursor != "" && outcome.Of(err) == outcome.Broken {
				err = nil
			}
			return p, err
		}}),
		"never ends": with(brokenSending{accounts: func(_ string, p integration.Page, err error) (integration.Page, error) {
			p.Next = "1"
			return p, err
		}}),
		"links lead elsewhere": with(brokenSending{start: func(s integration.SignIn, err error) (integration.SignIn, error) {
			s.URL = strings.Replace(s.URL, "login.microsoftonline.com", "login.microsoftonline.com.evil.example", 1)
			return s, err
		}}),
		"one link for all": with(brokenSending{start: func(s integration.SignIn, err error) (integration.SignIn, error) {
			if err == nil {
				s.URL = "https://login.microsoftonline.com/"
			}
			return s, err
		}}),
		"sessions have no end": with(brokenSending{start: func(s integration.SignIn, err error) (integration.SignIn, error) {
			s.ExpiresAt = time.Time{}
			return s, err
		}}),
		"a stray link in an error": with(brokenSending{start: func(s integration.SignIn, err error) (integration.SignIn, error) {
			s.URL = "https://login.microsoftonline.com/x"
			return s, err
		}}),
		"everybody has signed in": with(brokenSending{signIn: func(p integration.Progress, err error) (integration.Progress, error) {
			p.State = integration.SignInSucceeded
			return p, err
		}}),
		"forgets who signed in": with(brokenSending{signIn: func(p integration.Progress, err error) (integration.Progress, error) {
			p.Address = ""
			return p, err
		}}),
		"declines without a reason": with(brokenSending{signIn: func(p integration.Progress, err error) (integration.Progress, error) {
			p.Reason = ""
			return p, err
		}}),
		"the stamp stands still": with(brokenSending{account: func(_ context.Context, _ string, a integration.Account, err error) (integration.Account, error) {
			if a.There() {
				a.Stamp = "always"
			}
			return a, err
		}}),
		"removes once": func(p *fake.SendingPlatform) ports.SendingPlatform {
			gone := map[string]bool{}
			return brokenSending{SendingPlatform: p, remove: func(_ context.Context, id string, err error) error {
				if err == nil && gone[id] {
					err = &outcome.Error{Kind: outcome.Refused, Code: fault.MailboxNotFound}
				}
				gone[id] = err == nil
				return err
			}}
		},
		"removes all": func(p *fake.SendingPlatform) ports.SendingPlatform {
			return brokenSending{SendingPlatform: p, remove: func(_ context.Context, _ string, err error) error {
				for _, a := range p.Held() {
					p.Drop(a.Address)
				}
				return err
			}}
		},
		"a lost removal is done": with(brokenSending{remove: func(_ context.Context, _ string, err error) error {
			if outcome.Of(err) == outcome.Unknown {
				err = nil
			}
			return err
		}}),
		"a page is a removal": with(brokenSending{remove: func(_ context.Context, _ string, err error) error {
			if outcome.Of(err) == outcome.Broken {
				err = nil
			}
			return err
		}}),
	}
}

func noticedSending(t *testing.T, open func() SendingWorld, spoil func(*SendingWorld)) {
	t.Helper()
	for _, c := range sendingChecks() {
		w := open()
		spoil(&w)
		if fails(t, func(t testing.TB) { c.run(t, w) }) {
			return
		}
	}
	t.Fatal("the suite does not notice")
}

func TestSendingSuiteNoticesBrokenPromises(t *testing.T) {
	all := fakeSendingWorlds()
	for name, b := range brokenSendings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				noticedSending(t, all["all"], func(w *SendingWorld) { w.Platform = b(w.Platform.(*fake.SendingPlatform)) })
			})
		})
	}
	for name, spoil := range map[string]func(*SendingWorld){
		"any credential is taken":  func(w *SendingWorld) { w.Refused = w.Platform },
		"absent is broken":         func(w *SendingWorld) { w.Absent = w.Refused },
		"the lesser can all":       func(w *SendingWorld) { w.Lesser = w.Platform },
		"always one workspace":     func(w *SendingWorld) { w.Reaching = func(testing.TB, int) ports.SendingPlatform { return w.Platform } },
		"signs in without saying":  func(w *SendingWorld) { w.Can = []string{integration.CanDisconnect} },
		"removes without saying":   func(w *SendingWorld) { w.Can = []string{integration.CanOAuth} },
		"sessions without saying":  func(w *SendingWorld) { w.Sessions = false },
		"sessions that are not it": func(w *SendingWorld) { w.Platform.(*fake.SendingPlatform).Sessionless = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { noticedSending(t, all["all"], spoil) })
		})
	}
}
