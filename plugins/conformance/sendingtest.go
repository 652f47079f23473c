// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// opener is the function New of a simulator.
type opener = func(simulate.Options) (http.Handler, simulate.Ready, error)

// SendingTest is the simulator of a sending platform, with methods for tests. The methods that make
// control calls fail the test if the simulator refuses the call. SendingTest also has the methods
// of Simulator: Connection, Control, Fail and Violations.
type SendingTest struct {
	*Simulator
	t           T
	newPlatform func(sdk.Connection) (sdk.SendingPlatform, error)
	// accountsCreated is the number of accounts that putAccounts has created.
	accountsCreated int
}

// SimulateSending starts a simulator as Simulate does. newPlatform creates a platform under test.
func SimulateSending(t T, open opener, newPlatform func(sdk.Connection) (sdk.SendingPlatform, error)) *SendingTest {
	t.Helper()
	return &SendingTest{Simulator: Simulate(t, open), t: t, newPlatform: newPlatform}
}

// Given returns a connection to the simulator. The values replace the settings and secrets of the
// same name. An empty value removes a setting or secret. If several maps contain a name, the value
// of the last map is used.
func (s *SendingTest) Given(values ...map[string]string) sdk.Connection {
	settings, secrets := map[string]string{}, map[string]string{}
	for _, replacements := range values {
		for name, value := range replacements {
			if _, isSecret := s.Ready.Secrets[name]; isSecret {
				secrets[name] = value
			} else {
				settings[name] = value
			}
		}
	}
	return s.Connection(settings, secrets)
}

// With returns the plugin's platform for the connection Given(values...).
func (s *SendingTest) With(values ...map[string]string) sdk.SendingPlatform {
	s.t.Helper()
	p, err := s.newPlatform(s.Given(values...))
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// Send makes a control call and ignores the body of its answer.
func (s *SendingTest) Send(method, path string, in any) {
	s.t.Helper()
	s.Control(s.t, method, path, in, nil)
}

// Put creates or changes an account at the platform.
func (s *SendingTest) Put(address string, members map[string]any) {
	s.t.Helper()
	s.Send(http.MethodPut, "/accounts/"+url.PathEscape(address), members)
}

// Behave changes the behaviour of the platform.
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

// Requests returns the requests in the simulator's journal.
func (s *SendingTest) Requests() (all []simulate.Entry) {
	s.t.Helper()
	return s.journal(s.t)
}

// Held returns the accounts that GET /_control/accounts lists. query is the query string of the
// control call, such as "?a=b", or "".
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

// OpenLink returns the status and the text of the page to which a sign-in link leads.
func (s *SendingTest) OpenLink(link string) (status int, text string) {
	s.t.Helper()
	return s.request(http.MethodGet, link, "", "")
}

// Decide submits the page to which a sign-in link leads. decision is "accept" or "deny".
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

// Suite returns the simulator's answer to GET /_control/suite, in which s.URL replaces $url.
func (s *SendingTest) Suite() (out simulate.Suite) {
	s.t.Helper()
	s.Control(s.t, http.MethodGet, "/suite", nil, &out)
	return expand(s.t, out, map[string]any{"$url": s.URL})
}

// expand returns a copy of in with the keys of words replaced by their values. in must have a JSON
// form. A text that consists only of a key of words can become a JSON value of any type. Keys
// inside a replacement are not replaced.
func expand[V any](t T, in V, words map[string]any) (out V) {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	if err := json.Unmarshal(raw, &decoded); err != nil {
		t.Fatal(err)
	}
	if raw, err = json.Marshal(replaceWords(decoded, words, textReplacer(words))); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("decode the simulator's answer to GET /_control/suite: %v", err)
	}
	return out
}

// textReplacer returns a replacer for the words whose values are texts. It leaves the other words
// unchanged.
func textReplacer(words map[string]any) *strings.Replacer {
	var pairs []string
	// In reverse order, a word such as $names comes before its prefix $name. The replacer uses the
	// first word that matches.
	for _, word := range slices.Backward(slices.Sorted(maps.Keys(words))) {
		value, ok := words[word].(string)
		if !ok {
			value = word
		}
		pairs = append(pairs, word, value)
	}
	return strings.NewReplacer(pairs...)
}

// replaceWords replaces words in the texts and names of a decoded JSON value.
func replaceWords(value any, words map[string]any, replacer *strings.Replacer) any {
	switch v := value.(type) {
	case string:
		if replacement, ok := words[v]; ok {
			return replacement
		}
		return replacer.Replace(v)
	case []any:
		for i := range v {
			v[i] = replaceWords(v[i], words, replacer)
		}
	case map[string]any:
		replaced := map[string]any{}
		for name, member := range v {
			replaced[replacer.Replace(name)] = replaceWords(member, words, replacer)
		}
		return replaced
	}
	return value
}

func (s *SendingTest) call(c simulate.SuiteCall, words map[string]any) {
	s.t.Helper()
	c = expand(s.t, c, words)
	s.Send(c.Method, c.Path, c.Body)
}

// Fixture returns the environment in which the contract suite of a sending platform runs. The
// simulator's Suite describes this environment. The platform under test has the settings and
// secrets of Ready. The settings and secrets of the Suite replace values of the same name.
func (s *SendingTest) Fixture(d sdk.Description, newPlatform func(sdk.Connection) sdk.SendingPlatform) SendingFixture {
	s.t.Helper()
	suite := s.Suite()
	for _, c := range suite.Prepare {
		s.call(c, nil)
	}
	maps.Copy(s.Ready.Settings, suite.Settings)
	maps.Copy(s.Ready.Secrets, suite.Secrets)
	guessed, secrets := map[string]string{}, []string{}
	for name, value := range s.Ready.Secrets {
		guessed[name] = "guessed-" + name
		secrets = append(secrets, value, guessed[name])
	}
	fixture := SendingFixture{
		Platform: newPlatform(s.Given()), Refused: newPlatform(s.Given(guessed)), Absent: newPlatform(s.Given(s.settingsWithURL(UnreachableURL(s.t)))),
		Secrets: secrets, Can: d.Capabilities, Fail: s.Fail, LeastWait: time.Duration(suite.LeastWaitSeconds) * time.Second,
		Put:  func(_ T, accounts ...sdk.Account) { s.putAccounts(suite, accounts) },
		Held: func(T) []string { return s.heldAddresses(suite) },
		Silent: func(t T) (p sdk.SendingPlatform, asked <-chan struct{}, requireQuiet func(T)) {
			silent := newSilentServer()
			return newPlatform(s.Given(s.settingsWithURL(startServer(t, silent)))), silent.asked, silent.requireQuiet
		},
	}
	for _, state := range suite.States {
		fixture.AccountStates = append(fixture.AccountStates, accountInState(state))
	}
	if hosts := s.Ready.Settings["auth_hosts"]; hosts != "" {
		fixture.AuthHosts = sdk.SplitAuthHosts(hosts)
		fixture.SignIn = func(_ T, session sdk.SignInSession, address string) { s.Decide(session.URL, address, "accept") }
	}
	s.setOptionalFields(&fixture, suite, newPlatform)
	return fixture
}

// settingsWithURL returns the settings whose values begin with the simulator's URL. It replaces
// this URL by base.
func (s *SendingTest) settingsWithURL(base string) map[string]string {
	settings := map[string]string{}
	for name, value := range s.Ready.Settings {
		if rest, found := strings.CutPrefix(value, s.URL); found {
			settings[name] = base + rest
		}
	}
	return settings
}

// setOptionalFields sets the fields of fixture that only some platforms have.
func (s *SendingTest) setOptionalFields(fixture *SendingFixture, suite simulate.Suite, newPlatform func(sdk.Connection) sdk.SendingPlatform) {
	s.t.Helper()
	fixture.Sessions = suite.Sessions
	if suite.Declines {
		fixture.Decline = func(_ T, session sdk.SignInSession) { s.Decide(session.URL, "", "deny") }
	}
	if suite.Expire != nil {
		fixture.Expire = func(_ T, session sdk.SignInSession) {
			s.call(*suite.Expire, map[string]any{"$session": url.PathEscape(session.ID)})
		}
	}
	if suite.Unpaid != nil {
		fixture.Unpaid = func(T) { s.call(*suite.Unpaid, nil) }
	}
	if suite.Lesser != nil {
		fixture.Lesser = newPlatform(s.Given(suite.Lesser))
	}
	if w := suite.Workspaces; w != nil {
		fixture.WithWorkspaces = func(_ T, n int) sdk.SendingPlatform {
			workspaces := []any{}
			for i := range n {
				var id any = i + 1
				if !w.NumericID {
					id = fmt.Sprintf(w.ID, i+1)
				}
				workspaces = append(workspaces, map[string]any{"id": id, "name": fmt.Sprint("Workspace ", i+1)})
			}
			for _, c := range w.Calls {
				s.call(c, map[string]any{"$workspaces": workspaces})
			}
			return newPlatform(s.Given(w.Values))
		}
	}
}

// putAccounts creates the accounts at the simulator, each in the state of its sdk.Account.
func (s *SendingTest) putAccounts(suite simulate.Suite, accounts []sdk.Account) {
	s.t.Helper()
	for _, a := range accounts {
		first, last, _ := strings.Cut(a.Name, " ")
		s.accountsCreated++
		members := expand(s.t, suite.Name, map[string]any{"$name": a.Name, "$first": first, "$last": last, "$third": strconv.Itoa(s.accountsCreated % 3)})
		i := slices.IndexFunc(suite.States, func(state simulate.SuiteState) bool {
			return accountInState(state) == sdk.Account{State: a.State, Paused: a.Paused, HasError: a.HasError, Reason: a.Reason}
		})
		if i < 0 {
			s.t.Fatalf("the simulator's Suite has no state for the account %+v", a)
		}
		maps.Copy(members, suite.States[i].Members)
		s.Put(a.Address, members)
	}
}

// heldAddresses returns the addresses of the accounts that GET /_control/accounts lists.
func (s *SendingTest) heldAddresses(suite simulate.Suite) (addresses []string) {
	s.t.Helper()
	for _, a := range s.Held("") {
		address, ok := a[suite.Address].(string)
		if !ok {
			s.t.Fatalf("an account has no member %s: %v", suite.Address, a)
		}
		addresses = append(addresses, address)
	}
	return addresses
}

func accountInState(s simulate.SuiteState) sdk.Account {
	return sdk.Account{State: sdk.AccountState(s.State), Paused: s.Paused, HasError: s.HasError, Reason: s.Reason}
}
