// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// opener is the function New of a simulator.
type opener = func(simulate.Options) (http.Handler, simulate.Ready, error)

// SendingTest is a simulated sending platform for the tests of its plugin. Each method fails the
// test when the simulator refuses the call.
type SendingTest struct {
	*Simulator
	t           T
	newPlatform func(sdk.Connection) (sdk.SendingPlatform, error)
}

// SimulateSending starts a simulator as Simulate does. newPlatform is the plugin's code.
func SimulateSending(t T, open opener, newPlatform func(sdk.Connection) (sdk.SendingPlatform, error)) *SendingTest {
	t.Helper()
	return &SendingTest{Simulate(t, open), t, newPlatform}
}

// Given returns a connection to the simulator. The values replace settings and secrets by name. An
// empty value removes one, and later values win.
func (s *SendingTest) Given(values ...map[string]string) sdk.Connection {
	settings, secrets := map[string]string{}, map[string]string{}
	for _, some := range values {
		for name, value := range some {
			if _, secret := s.Ready.Secrets[name]; secret {
				secrets[name] = value
			} else {
				settings[name] = value
			}
		}
	}
	return s.Connection(settings, secrets)
}

// With returns the plugin's platform of Given(values).
func (s *SendingTest) With(values ...map[string]string) sdk.SendingPlatform {
	s.t.Helper()
	p, err := s.newPlatform(s.Given(values...))
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// Send makes a control call without an answer.
func (s *SendingTest) Send(method, path string, in any) {
	s.t.Helper()
	s.Control(s.t, method, path, in, nil)
}

// Put creates or changes an account at the platform.
func (s *SendingTest) Put(address string, members map[string]any) {
	s.t.Helper()
	s.Send(http.MethodPut, "/accounts/"+url.PathEscape(address), members)
}

// Behave switches the behaviour of the platform.
func (s *SendingTest) Behave(switches map[string]any) {
	s.t.Helper()
	s.Send(http.MethodPost, "/behaviour", switches)
}

// FailOnce plans a fault for one call.
func (s *SendingTest) FailOnce(fault map[string]any) {
	s.t.Helper()
	fault = maps.Clone(fault)
	fault["times"] = 1
	s.Send(http.MethodPost, "/faults", fault)
}

// Requests returns the requests that the platform received.
func (s *SendingTest) Requests() (all []simulate.Entry) {
	s.t.Helper()
	s.Control(s.t, http.MethodGet, "/calls", nil, &all)
	return all
}

// Held returns the accounts at the platform. query is a query of the control call, or "".
func (s *SendingTest) Held(query string) (all []map[string]any) {
	s.t.Helper()
	s.Control(s.t, http.MethodGet, "/accounts"+query, nil, &all)
	return all
}

// List returns the accounts on all pages of a platform's list, and the number of pages.
func (s *SendingTest) List(p sdk.SendingPlatform) (all []sdk.Account, pages int, err error) {
	for cursor := ""; pages == 0 || cursor != ""; pages++ {
		page, err := p.Accounts(s.t.Context(), cursor)
		if err != nil {
			return all, pages, err
		}
		all, cursor = append(all, page.Accounts...), page.Next
	}
	return all, pages, nil
}

// OpenLink returns the status and the text of the page behind a sign-in link.
func (s *SendingTest) OpenLink(link string) (status int, text string) {
	s.t.Helper()
	return s.request(http.MethodGet, link, "", "")
}

// Decide submits the page behind a sign-in link. decision is "accept" or "deny".
func (s *SendingTest) Decide(link, username, decision string) (status int, text string) {
	s.t.Helper()
	form := url.Values{"username": {username}, "decision": {decision}}
	return s.request(http.MethodPost, link, "application/x-www-form-urlencoded", form.Encode())
}

func (s *SendingTest) request(method, link, contentType, body string) (status int, text string) {
	s.t.Helper()
	status, answer, err := send(s.t, method, link, contentType, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	return status, string(answer)
}

// AccountForm is an account with one combination of State, Paused, HasError and Reason. Members are
// the JSON members with which the simulator makes such an account.
type AccountForm struct {
	sdk.Account
	Members map[string]any
}

// Fixture returns the environment of the contract, as far as most platforms have the same. The
// platform under test has the settings and secrets of Ready. forms are all forms of an account.
// email is the member with its address, and named returns the members with its name. The caller
// adds what is special.
func (s *SendingTest) Fixture(d sdk.Description, newPlatform func(sdk.Connection) sdk.SendingPlatform,
	forms []AccountForm, email string, named func(name string) map[string]any) SendingFixture {
	guessed, secrets := map[string]string{}, []string{}
	for name, value := range s.Ready.Secrets {
		guessed[name] = "guessed-" + name
		secrets = append(secrets, value, guessed[name])
	}
	out := SendingFixture{
		Platform: newPlatform(s.Given()), Refused: newPlatform(s.Given(guessed)),
		Absent:  newPlatform(s.Given(map[string]string{"base_url": UnreachableURL(s.t)})),
		Secrets: secrets, Can: d.Capabilities, Fail: s.Fail,
		Put: func(t T, accounts ...sdk.Account) {
			t.Helper()
			for _, a := range accounts {
				members := named(a.Name)
				maps.Copy(members, formOf(t, forms, a).Members)
				s.Put(a.Address, members)
			}
		},
		Held: func(t T) (addresses []string) {
			t.Helper()
			for _, a := range s.Held("") {
				addresses = append(addresses, a[email].(string))
			}
			return addresses
		},
	}
	for _, form := range forms {
		out.AccountStates = append(out.AccountStates, form.Account)
	}
	if hosts := s.Ready.Settings["auth_hosts"]; hosts != "" {
		out.AuthHosts = []string{hosts}
		out.SignIn = func(t T, at sdk.SignInSession, address string) {
			t.Helper()
			s.Decide(at.URL, address, "accept")
		}
	}
	return out
}

func formOf(t T, forms []AccountForm, a sdk.Account) AccountForm {
	t.Helper()
	for _, form := range forms {
		if form.Account == (sdk.Account{State: a.State, Paused: a.Paused, HasError: a.HasError, Reason: a.Reason}) {
			return form
		}
	}
	t.Fatalf("no form of an account stands for %+v", a)
	return AccountForm{}
}
