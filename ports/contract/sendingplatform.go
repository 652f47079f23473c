// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// SendingPlatformEnv is a test environment of a sending platform with one valid credential. Put,
// Held, SignIn, Decline, Expire, Unpaid and Fail access the platform directly, without the adapter.
// All fields are required unless their comment allows nil or zero.
type SendingPlatformEnv struct {
	// Platform is the adapter under test with a valid credential of a workspace without accounts.
	// Refused has a credential that the platform rejects. Absent calls an address at which no
	// server listens.
	Platform, Refused, Absent ports.SendingPlatform
	// Secrets are the secrets of the credential. No error may contain them.
	Secrets []string
	// Can lists the capabilities of Platform. Lesser is the platform with a credential that lacks
	// the capability CanOAuth. Lesser may be nil if all credentials have the same capabilities.
	Can    []string
	Lesser ports.SendingPlatform
	// WithWorkspaces returns the platform with a credential that has access to this number of
	// workspaces and selects none. WithWorkspaces is nil if a credential always has access to
	// exactly one workspace.
	WithWorkspaces func(t T, workspaces int) ports.SendingPlatform
	// AccountStates are all combinations of State, Paused, HasError and Reason that an account can
	// have. One of them must be connected, not paused and without an error.
	AccountStates []integration.Account
	// Put adds accounts, each with an address, a name and one of AccountStates.
	Put func(t T, accounts ...integration.Account)
	// Held returns the addresses of all accounts.
	Held func(t T) []string
	// Sessions is true if the platform has sign-in sessions. AuthHosts are the hosts that the
	// operator allows for sign-in links. AuthHosts may be nil if Can lacks CanOAuth.
	Sessions  bool
	AuthHosts []string
	// SignIn simulates a person who opens a link and signs in with this address. SignIn must be nil
	// if Can lacks CanOAuth. Decline and Expire end a session without a sign-in. Without Sessions,
	// the checks do not use them, and they may be nil.
	SignIn          func(t T, at integration.SignIn, address string)
	Decline, Expire func(t T, at integration.SignIn)
	// Unpaid ends the plan of the credential's account. It is nil if the test platform cannot do so.
	Unpaid func(t T)
	// LeastWait is the shortest wait that the adapter demands when the platform throttles, even if
	// Retry-After is shorter. Zero means that only Retry-After counts.
	LeastWait time.Duration
	// Silent returns the adapter under test at a platform that never answers. asked is closed when
	// the platform gets a request. requireQuiet fails the check if a request stays open. Silent is
	// nil if the environment does not see the adapter's requests.
	Silent func(t T) (p ports.SendingPlatform, asked <-chan struct{}, requireQuiet func(T))
	// Fail makes the platform fail as failure says, until lift is called.
	Fail func(t T, failure Failure) (lift func())
}

// The failures that only sending platforms have.
const (
	// AnswersHTML answers every call with 200 OK and an HTML page, as a proxy does.
	AnswersHTML Failure = iota + 11
	// Truncates cuts every answer in half.
	Truncates
	// AnswersWrongShape answers every call with JSON of an unexpected shape.
	AnswersWrongShape
	// Hangs accepts requests and never answers.
	Hangs
	// RepeatsFirstPage answers every request for a page with the first page.
	RepeatsFirstPage
	// Redirects redirects every call to a different host.
	Redirects
	// AnswersWithoutEnd answers every call with a body that never ends.
	AnswersWithoutEnd
	// ReturnsForeignLinks returns sign-in links to hosts that are not allowed.
	ReturnsForeignLinks
)

// ThrottleWait is the Retry-After of a sending platform that fails with Throttles.
const ThrottleWait = 7 * time.Second

type sendingCheck = Check[SendingPlatformEnv]

// SendingPlatform runs the contract suite of ports.SendingPlatform. open returns a new environment
// each time.
func SendingPlatform[R Runner[R]](t R, open func(T) SendingPlatformEnv) {
	for _, check := range SendingPlatformChecks() {
		t.Run(check.ID, func(t R) {
			t.Parallel() // many checks only wait
			check.Run(t, open(t))
		})
	}
}

// SendingPlatformChecks returns the checks of the contract suite of ports.SendingPlatform. Each
// check needs a new environment, and fails if the environment is incomplete.
func SendingPlatformChecks() []Check[SendingPlatformEnv] {
	checks := sendingChecks()
	for i, check := range checks {
		checks[i].Run = func(t T, env SendingPlatformEnv) {
			env.requireComplete(t)
			check.Run(t, env)
		}
	}
	return checks
}

func sendingChecks() []sendingCheck {
	var checks []sendingCheck
	checks = append(checks, sendingCredentialChecks...)
	checks = append(checks, sendingAccountChecks...)
	checks = append(checks, sendingListChecks...)
	checks = append(checks, sendingSignInChecks...)
	checks = append(checks, sendingRemovalChecks...)
	return append(checks, sendingFailureChecks...)
}

// requireComplete fails the test if a required field is missing or contradicts Can. The checks that
// need the field would otherwise be skipped or panic.
func (env SendingPlatformEnv) requireComplete(t T) {
	t.Helper()
	for field, missing := range map[string]bool{
		"Platform": env.Platform == nil, "Refused": env.Refused == nil, "Absent": env.Absent == nil, "Secrets": len(env.Secrets) == 0,
		"AccountStates": !slices.Contains(env.AccountStates, integration.Account{State: integration.AccountConnected}),
		"Put":           env.Put == nil, "Held": env.Held == nil, "Fail": env.Fail == nil,
		"AuthHosts": env.hasCapability(integration.CanOAuth) && len(env.AuthHosts) == 0,
		"SignIn":    env.hasCapability(integration.CanOAuth) != (env.SignIn != nil),
		"Decline":   env.Sessions && env.Decline == nil, "Expire": env.Sessions && env.Expire == nil,
	} {
		if missing {
			t.Fatalf("the field %s of the SendingPlatformEnv is missing or wrong", field)
		}
	}
}

func (env SendingPlatformEnv) hasCapability(capability string) bool {
	return slices.Contains(env.Can, capability)
}

// workingAccount returns a connected account with this address.
func workingAccount(address string) integration.Account {
	return integration.Account{Address: address, Name: "Anna Schmidt", State: integration.AccountConnected}
}

// manyAccounts returns n connected accounts with different addresses.
func manyAccounts(n int) []integration.Account {
	accounts := make([]integration.Account, n)
	for i := range accounts {
		accounts[i] = workingAccount(fmt.Sprintf("user%04d@many.example", i))
	}
	return accounts
}

// requireNoSecrets checks that an error contains no secret in any of its printed forms.
func (env SendingPlatformEnv) requireNoSecrets(t T, action string, err error) {
	t.Helper()
	for _, s := range env.Secrets {
		if text := fmt.Sprintf("%v %+v %#v", err, err, err); err != nil && strings.Contains(text, s) {
			t.Fatalf("%s: the error quotes a secret", action)
		}
	}
}

func findAccount(t T, env SendingPlatformEnv, address string) integration.Account {
	t.Helper()
	a, err := env.Platform.Account(callContext(t), address)
	must(t, "look up "+address, err)
	return a
}

// hasSameState reports whether two accounts are equal apart from id, name, stamp and the case of
// the address.
func hasSameState(a, b integration.Account) bool {
	return integration.SameAddress(a.Address, b.Address) && a.State == b.State && a.Paused == b.Paused && a.HasError == b.HasError && a.Reason == b.Reason
}

var sendingCredentialChecks = []sendingCheck{
	{"sending/credential/reaches-workspace", "a valid credential reaches its workspace", func(t T, env SendingPlatformEnv) {
		reach, err := env.Platform.Check(callContext(t))
		must(t, "check", err)
		if len(reach.Workspaces) != 1 || reach.SelectedWorkspaceOnly {
			t.Fatalf("got %+v, want exactly one workspace, without SelectedWorkspaceOnly", reach)
		}
	}},
	{"sending/credential/rejected", "calls with a rejected credential are refused with access_denied", func(t T, env SendingPlatformEnv) {
		refused := env.Refused
		calls := map[string]func(context.Context) error{
			"check":    func(ctx context.Context) error { _, err := refused.Check(ctx); return err },
			"account":  func(ctx context.Context) error { _, err := refused.Account(ctx, "anna@a.example"); return err },
			"accounts": func(ctx context.Context) error { _, err := refused.Accounts(ctx, ""); return err },
		}
		if env.hasCapability(integration.CanOAuth) {
			calls["start"] = func(ctx context.Context) error { _, err := refused.StartSignIn(ctx, "anna@a.example"); return err }
		}
		for operation, call := range calls {
			err := call(callContext(t))
			requireRefusal(t, operation, err, fault.AccessDenied)
			env.requireNoSecrets(t, operation, err)
		}
	}},
	{"sending/credential/ended-plan", "an ended plan is distinguished from an invalid credential", func(t T, env SendingPlatformEnv) {
		if env.Unpaid == nil {
			t.Skipf("the test platform cannot end a plan")
		}
		env.Unpaid(t)
		_, err := env.Platform.Accounts(callContext(t), "")
		var result *outcome.Error
		if requireRefusal(t, "accounts", err, fault.AccessDenied); !errors.As(err, &result) || result.Cause != "plan_inactive" {
			t.Fatalf("got %v, want the cause plan_inactive", err)
		}
	}},
	{"sending/credential/workspaces", "workspaces are listed with their ids", func(t T, env SendingPlatformEnv) {
		if env.WithWorkspaces == nil {
			t.Skipf("a credential reaches exactly one workspace")
		}
		for _, n := range []int{0, 1, 3} {
			reach, err := env.WithWorkspaces(t, n).Check(callContext(t))
			if n == 0 && errors.Is(err, fault.AccessDenied) {
				continue // a platform may reject a credential that reaches no workspace
			}
			must(t, "check", err)
			ids := map[string]bool{}
			for _, workspace := range reach.Workspaces {
				ids[workspace.ID] = true
			}
			if len(reach.Workspaces) != n || len(ids) != n || n > 1 && ids[""] {
				t.Fatalf("got %+v, want %d workspaces with different ids", reach, n)
			}
		}
	}},
}

var sendingAccountChecks = []sendingCheck{
	{"sending/accounts/found", "an account is found by its address, whatever its case", func(t T, env SendingPlatformEnv) {
		env.Put(t, workingAccount("Anna.Schmidt@Case.example"))
		found := findAccount(t, env, "anna.schmidt@case.example")
		if !found.Exists() || !hasSameState(found, workingAccount("anna.schmidt@case.example")) {
			t.Fatalf("got %+v, want the connected account", found)
		}
		if foundInUpperCase := findAccount(t, env, "ANNA.SCHMIDT@CASE.EXAMPLE"); foundInUpperCase != found {
			t.Fatalf("got %+v, and %+v for the address in upper case, want the same account", found, foundInUpperCase)
		}
	}},
	{"sending/accounts/similar-address", "a similar address is not found", func(t T, env SendingPlatformEnv) {
		env.Put(t, workingAccount("joanna@look.example"), workingAccount("anna@look.example.org"), workingAccount("anna+1@look.example"))
		if a := findAccount(t, env, "anna@look.example"); a.Exists() || a != (integration.Account{}) {
			t.Fatalf("got %+v, want no account", a)
		}
		env.Put(t, workingAccount("anna@look.example"))
		if a := findAccount(t, env, "anna@look.example"); !integration.SameAddress(a.Address, "anna@look.example") {
			t.Fatalf("got %+v, want the account of anna@look.example", a)
		}
	}},
	{"sending/accounts/special-characters", "addresses with URL special characters are found", func(t T, env SendingPlatformEnv) {
		const specialAddress, decodedAddress = "a+b&c=d#e%40f@odd.example", "a b@odd.example"
		env.Put(t, workingAccount("a@odd.example"))
		for _, address := range []string{specialAddress, decodedAddress, "../a@odd.example", "a@odd.example/"} {
			if a := findAccount(t, env, address); a.Exists() {
				t.Fatalf("%s: got %+v, want no account", address, a)
			}
		}
		env.Put(t, workingAccount(specialAddress))
		if a := findAccount(t, env, specialAddress); a.Address != specialAddress {
			t.Fatalf("got %+v, want the account of %s", a, specialAddress)
		}
	}},
	{"sending/accounts/states", "an account has the same state alone and in the list", func(t T, env SendingPlatformEnv) {
		var want []integration.Account
		for i, account := range env.AccountStates {
			account.Address = fmt.Sprintf("account%d@state.example", i)
			account.Name = "Anna Schmidt"
			want = append(want, account)
		}
		env.Put(t, want...)
		listed := allAccounts(t, env)
		for _, a := range want {
			got := findAccount(t, env, a.Address)
			if !got.Exists() || !hasSameState(got, a) {
				t.Fatalf("got %+v, want %+v", got, a)
			}
			if !slices.ContainsFunc(listed, func(l integration.Account) bool { return l.ID == got.ID && hasSameState(l, a) }) {
				t.Fatalf("the list does not contain the account %+v in this state: %+v", got, listed)
			}
		}
	}},
}

var sendingListChecks = []sendingCheck{
	{"sending/list/empty", "the list of a workspace without accounts is empty", func(t T, env SendingPlatformEnv) { requireListing(t, env, 0) }},
	{"sending/list/one", "the list of a workspace with one account contains it", func(t T, env SendingPlatformEnv) { requireListing(t, env, 1) }},
	{"sending/list/full-page", "100 accounts, a full page at many platforms, are all listed", func(t T, env SendingPlatformEnv) { requireListing(t, env, 100) }},
	{"sending/list/many", "250 accounts are listed once each", func(t T, env SendingPlatformEnv) { requireListing(t, env, 250) }},
	{"sending/list/repeated-page", "a listing whose pages repeat is reported as broken", func(t T, env SendingPlatformEnv) {
		env.Put(t, manyAccounts(250)...)
		env.Fail(t, RepeatsFirstPage)
		cursor := ""
		for range 20 {
			page, err := env.Platform.Accounts(callContext(t), cursor)
			if err != nil {
				requireOutcome(t, "accounts", err, outcome.Broken)
				return
			}
			if cursor = page.Next; cursor == "" {
				t.Fatal("a partial list of accounts was reported as complete")
			}
		}
		t.Fatal("20 repeated pages were read without an error")
	}},
}

// allAccounts reads all pages.
func allAccounts(t T, env SendingPlatformEnv) []integration.Account {
	t.Helper()
	var accounts []integration.Account
	cursor := ""
	for range 100 {
		page, err := env.Platform.Accounts(callContext(t), cursor)
		must(t, "accounts", err)
		accounts = append(accounts, page.Accounts...)
		if cursor = page.Next; cursor == "" {
			return accounts
		}
	}
	t.Fatal("the list has more than 100 pages")
	return nil
}

// requireListing puts n accounts and checks that the listing has each of them once.
func requireListing(t T, env SendingPlatformEnv, count int) {
	t.Helper()
	want := manyAccounts(count)
	env.Put(t, want...)
	listedAddresses, ids := map[string]bool{}, map[string]bool{}
	listed := allAccounts(t, env)
	for _, a := range listed {
		listedAddresses[strings.ToLower(a.Address)], ids[a.ID] = true, true
		if !a.Exists() || a.State != integration.AccountConnected || a.HasError {
			t.Fatalf("got %+v, want a connected account without an error", a)
		}
	}
	for _, a := range want {
		if !listedAddresses[a.Address] {
			t.Fatalf("the list does not contain %s", a.Address)
		}
	}
	if len(listed) != count || len(ids) != count {
		t.Fatalf("listed %d accounts with %d different ids, want %d", len(listed), len(ids), count)
	}
}
