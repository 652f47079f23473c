// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/mail-microsoft365/simulator"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// dataDirVariable is the environment variable that makes this test binary serve a simulator instead
// of running tests. Its value is the data folder.
const dataDirVariable = "TEST_SIMULATOR_DATA"

func TestMain(main *testing.M) {
	if dir := os.Getenv(dataDirVariable); dir != "" {
		if err := serveSimulator(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(main.Run())
}

// serveSimulator serves a simulator on a free port and prints its simulate.Ready.
func serveSimulator(dir string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	handler, ready, err := simulator.New(simulate.Options{URL: "http://" + listener.Addr().String(), DataDir: dir,
		World: os.Getenv("TEST_WORLD"), Log: os.Stderr})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(ready); err != nil {
		return err
	}
	return http.Serve(listener, handler)
}

// startProcess starts a simulator in a process of its own. The returned function kills the process
// with SIGKILL.
func startProcess(t *testing.T, dir string, dnsServer *fakeDNS) (*simClient, func()) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), dataDirVariable+"="+dir, "TEST_WORLD="+dnsServer.url)
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	sim := &simClient{t: t, fakeDNS: dnsServer, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if err := json.Unmarshal(line, &sim.ready); err != nil {
		t.Fatal(err)
	}
	return sim, func() {
		_ = command.Process.Kill() // SIGKILL
		_ = command.Wait()
	}
}

// TestStateSurvivesSIGKILL kills the simulator after it created a mailbox and before it answers.
// After a restart, the application must be the same. The mailbox, the last entry of the journal and
// a planned fault must exist, and a token from before the restart must be valid.
func TestStateSurvivesSIGKILL(t *testing.T) {
	dir, dnsServer := t.TempDir(), newFakeDNS(t)
	sim, kill := startProcess(t, dir, dnsServer)
	defer kill()
	testTenant := sim.newConnectedTenant(jsonObject{"name": "Fabrikam Outreach"})
	testTenant.addMailDomain(domain)
	// The token below is not valid yet if the restart loses the offset of the clock.
	sim.control("POST", "/clock", jsonObject{"advance": "20m"})
	header := bearer(testTenant.token(exchangeScope))
	sim.planFault(jsonObject{"kind": "delay_after", "delay_ms": 600_000, "times": 1, "operation": "New-Mailbox"})
	sim.planFault(jsonObject{"kind": "status", "status": 503, "times": 1, "operation": "Set-Mailbox"})

	requestErr := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, sim.ready.Settings["exchange_url"]+"/adminapi/beta/"+testTenant.id+"/InvokeCommand",
			strings.NewReader(`{"CmdletInput":{"CmdletName":"New-Mailbox","Parameters":{"Shared":true,"Name":"a@`+domain+`","Alias":"a.d","PrimarySmtpAddress":"a@`+domain+`"}}}`))
		if err != nil {
			requestErr <- err
			return
		}
		req.Header = header
		resp, err := sim.http.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		requestErr <- err
	}()
	for done := false; !done; {
		last := sim.lastCall()
		done = last.Operation == "New-Mailbox" && last.Status == http.StatusOK
	}
	kill()
	if err := <-requestErr; err == nil {
		t.Fatal("New-Mailbox was answered before the kill, want an error")
	}

	restarted, killRestarted := startProcess(t, dir, dnsServer)
	defer killRestarted()
	if got := restarted.ready.Settings["client_id"]; got != sim.ready.Settings["client_id"] || restarted.ready.Secrets["client_secret"] != sim.ready.Secrets["client_secret"] {
		t.Errorf("the client id %s or the client secret is new, want those from before the restart", got)
	}
	if last := restarted.lastCall(); last.Operation != "New-Mailbox" || last.Status != http.StatusOK || !last.Write {
		t.Errorf("the journal ends with %+v, want a write by New-Mailbox with status 200", last)
	}
	testTenant.simClient = restarted
	if answer := testTenant.runCmdletWith(header, "", "Get-Mailbox", jsonObject{"Identity": "a@" + domain}); answer.status != http.StatusOK {
		t.Errorf("the mailbox, read with a token from before the restart: %d %s, want 200", answer.status, answer.raw)
	}
	if answer := testTenant.runCmdletWith(header, "", "Set-Mailbox", jsonObject{"Identity": "a@" + domain, "DisplayName": "x"}); answer.status != http.StatusServiceUnavailable {
		t.Errorf("Set-Mailbox, with the fault planned before the restart: %d, want 503", answer.status)
	}
}

func (s *simClient) lastCall() simulate.Entry {
	s.t.Helper()
	var calls []simulate.Entry
	if err := json.Unmarshal(s.control("GET", "/calls", nil).raw, &calls); err != nil || len(calls) == 0 {
		s.t.Fatalf("the journal has %d calls, %v, want at least one", len(calls), err)
	}
	return calls[len(calls)-1]
}

// TestEffectsStayWhenClockMovesBack moves the clock to a time before earlier changes. Their effects
// must stay visible, and later changes must have their usual lag.
func TestEffectsStayWhenClockMovesBack(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant(jsonObject{"bootstrap": "dehydrated"})
	testTenant.addMailDomain(domain)
	id := testTenant.newMailbox("anna@"+domain, "anna.d")["ExternalDirectoryObjectId"].(string)
	testTenant.runCmdlet("Enable-OrganizationCustomization", jsonObject{})
	testTenant.setBehaviour(jsonObject{"dns_negative_ms": 30_000})
	testTenant.callGraph("POST", "/domains", jsonObject{"id": "later.example"})
	assertGolden(t, "graph-verification-failed", testTenant.callGraph("POST", "/domains/later.example/verify", nil))
	testTenant.publishVerificationRecord("later.example")

	testTenant.control("POST", "/clock", jsonObject{"now": time.Now().Add(-48 * time.Hour)})
	for _, path := range []string{"/domains/" + domain, "/users/" + id, "/users/" + testTenant.admin} {
		if answer := testTenant.callGraph("GET", path, nil); answer.status != http.StatusOK {
			t.Errorf("%s: %d %s, want 200", path, answer.status, answer.raw)
		}
	}
	if answer := testTenant.callGraph("POST", "/domains/later.example/verify", nil); answer.status != http.StatusOK {
		t.Errorf("verify after the record was published: %d %s, want 200", answer.status, answer.raw)
	}
	if answer := testTenant.runCmdlet("Get-AcceptedDomain", jsonObject{"Identity": strings.ToUpper(domain)}); answer.status != http.StatusOK {
		t.Errorf("Get-AcceptedDomain: %d %s, want 200", answer.status, answer.raw)
	}
	if answer := testTenant.runCmdlet("Get-OrganizationConfig", jsonObject{}); answer.valueAt("value", 0, "IsDehydrated") != false {
		t.Errorf("the organization is %s, want it not dehydrated", answer.raw)
	}
	if answer := testTenant.runCmdlet("Set-CASMailbox", jsonObject{"Identity": "anna@" + domain, "SmtpClientAuthenticationDisabled": false}); answer.status != http.StatusOK {
		t.Errorf("Set-CASMailbox: %d %s, want 200", answer.status, answer.raw)
	}
	testTenant.signInCode(testTenant.admin) // the administrator still has the role

	testTenant.setBehaviour(jsonObject{"domain_ms": 3_600_000})
	testTenant.callGraph("POST", "/domains", jsonObject{"id": "new.example"})
	assertGolden(t, "graph-not-found", testTenant.callGraph("GET", "/domains/new.example", nil))
	testTenant.control("POST", "/clock", jsonObject{"now": time.Now().Add(-48*time.Hour + 61*time.Minute)})
	if answer := testTenant.callGraph("GET", "/domains/new.example", nil); answer.status != http.StatusOK {
		t.Errorf("after the lag of a domain that was added after the clock moved back: %d %s, want 200", answer.status, answer.raw)
	}
}

// callConcurrently makes the same call several times at once. It returns the number of answers of
// each status.
func callConcurrently(times int, call func() response) map[int]int {
	var mu sync.Mutex
	var running sync.WaitGroup
	statuses := map[int]int{}
	for range times {
		running.Go(func() {
			answer := call()
			mu.Lock()
			statuses[answer.status]++
			mu.Unlock()
		})
	}
	running.Wait()
	return statuses
}

func TestConcurrentCreatesSucceedOnce(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	exchangeToken, graphToken := bearer(testTenant.token(exchangeScope)), bearer(testTenant.token(graphScope))
	mailboxes := callConcurrently(12, func() response {
		return testTenant.runCmdletWith(exchangeToken, "", "New-Mailbox", mailboxParams("bob@"+domain, "bob.d"))
	})
	if mailboxes[http.StatusOK] != 1 || mailboxes[http.StatusBadRequest] != 11 {
		t.Errorf("the statuses of New-Mailbox are %v, want 200 once and 400 eleven times", mailboxes)
	}
	domains := callConcurrently(12, func() response {
		return testTenant.callGraphWith(graphToken, "POST", "/domains", jsonObject{"id": "new.example"})
	})
	if domains[http.StatusCreated] != 1 || domains[http.StatusBadRequest] != 11 {
		t.Errorf("the statuses of POST /domains are %v, want 201 once and 400 eleven times", domains)
	}
}

func TestConcurrentVerificationsSucceedOnce(t *testing.T) {
	sim := startSimulator(t)
	tenants := []*tenant{sim.newConnectedTenant(), sim.newConnectedTenant()}
	for _, testTenant := range tenants {
		testTenant.callGraph("POST", "/domains", jsonObject{"id": domain})
		testTenant.publishVerificationRecord(domain)
	}
	pending := make(chan *tenant, len(tenants))
	for _, testTenant := range tenants {
		pending <- testTenant
	}
	statuses := callConcurrently(len(tenants), func() response {
		testTenant := <-pending
		return testTenant.callGraph("POST", "/domains/"+domain+"/verify", nil)
	})
	if statuses[http.StatusOK] != 1 || statuses[http.StatusBadRequest] != 1 {
		t.Errorf("the statuses of verify are %v, want 200 once and 400 once", statuses)
	}
}
