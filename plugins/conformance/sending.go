// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports/contract"
)

// SendingFixture is the environment in which the contract suite of a sending platform runs.
type SendingFixture = contract.SendingPlatformEnv

// NewSendingFixture returns a new environment for one check. It should use SimulateSending. It
// calls newPlatform to get the platforms under test.
type NewSendingFixture func(t T, newPlatform func(sdk.Connection) sdk.SendingPlatform) contract.SendingPlatformEnv

// Sending runs the checks of Plugin, the check sending/describe/fields and the contract suite of a
// sending platform against the built binary. It calls newFixture once for each check of the
// contract suite.
func Sending[R contract.Runner[R]](t R, b Binary, newFixture NewSendingFixture) {
	Plugin(t, b)
	t.Run(sendingDescription.ID, func(t R) { sendingDescription.Run(t, b) })
	t.Run("the contract of the port", func(t R) {
		p := b.Start(t)
		contract.SendingPlatform(t, func(t T) contract.SendingPlatformEnv {
			return newFixture(t, func(c sdk.Connection) sdk.SendingPlatform { return SendingPlatform(p, c) })
		})
	})
}

// SendingInProcess checks the description of p and runs the contract suite of a sending platform
// against the code of p inside the test process. It calls newFixture once for each check of the
// contract suite.
func SendingInProcess[R contract.Runner[R]](t R, p sdk.Plugin, newFixture NewSendingFixture) {
	checkSendingDescription(t, p.Describe)
	checkCapabilities(t, p.Describe)
	contract.SendingPlatform(t, func(t T) contract.SendingPlatformEnv {
		return newFixture(t, func(c sdk.Connection) sdk.SendingPlatform {
			platform, err := p.Sending(c)
			if err != nil {
				t.Fatalf("create a platform: %v", err)
			}
			return platform
		})
	})
}

func checkSendingDescription(t T, description sdk.Description) {
	t.Helper()
	if description.Kind != wire.KindSending {
		t.Errorf("the kind is %q, want %q", description.Kind, wire.KindSending)
	}
	field := func(name string) (sdk.Field, bool) {
		i := slices.IndexFunc(description.Fields, func(f sdk.Field) bool { return f.Name == name })
		if i < 0 {
			return sdk.Field{}, false
		}
		return description.Fields[i], true
	}
	if f, ok := field("api_key"); !ok || !f.Account || !f.Secret || !f.Required {
		t.Error("there is no account field api_key that is secret and required")
	}
	if f, ok := field("workspace_id"); !ok || !f.Account || f.Secret || f.Required {
		t.Error("there is no optional account setting workspace_id")
	}
	if f, ok := field(wire.AuthHosts); slices.Contains(description.Capabilities, sdk.CanOAuth) && (!ok || f.Account || f.Default == "") {
		t.Errorf("there is no operator setting %s with a default", wire.AuthHosts)
	}
}

// newSendingEnvironment starts the plugin and its simulator, and returns the environment in which
// Test runs the contract suite of a sending platform.
func newSendingEnvironment(t T, e *environment) contract.SendingPlatformEnv {
	t.Helper()
	e.start(t, newZoneServer(t, e.description.Name).url)
	newPlatform := func(c sdk.Connection) (sdk.SendingPlatform, error) {
		return e.sending(e.process, e.withDefaults(c)), nil
	}
	test := &SendingTest{Simulator: e.simulator, t: t, newPlatform: newPlatform}
	if status, _ := e.simulator.callControl(t, http.MethodGet, "/suite", nil); status != http.StatusOK {
		t.Fatalf("the simulator answers GET /_control/suite with %d", status)
	}
	fixture := test.Fixture(e.description, func(c sdk.Connection) sdk.SendingPlatform {
		platform, _ := newPlatform(c)
		return platform
	})
	e.exchange.addSecrets(e.simulator.Ready.Secrets)
	return fixture
}

func checkSendingHealth(t T, e *environment) {
	platform := newSendingEnvironment(t, e).Platform
	defer e.simulator.Fail(t, contract.Hangs)()
	check := func(ctx context.Context) error { _, err := platform.Check(ctx); return err }
	checkHealth(t, e.process, check, &e.simulator.faults.requests)
}

var sendingDescription = check{ID: "sending/describe/fields", Proves: "the description fits a sending platform", Run: func(t T, b Binary) {
	checkSendingDescription(t, describe(t, b.Start(t)))
}}

// RetryAfter checks that the plugin of a sending platform sends nothing with a credential while a
// Retry-After applies to this credential, not even for a different workspace of the credential. It
// runs the plugin's code against the plugin's simulator. RetryAfter also fails if Plugin.Waits is
// nil.
func RetryAfter(t T, open opener, p sdk.Plugin) {
	t.Helper()
	env := SimulateSending(t, open, p.Sending)
	env.FailOnce(map[string]any{"kind": "status", "status": http.StatusTooManyRequests, "retry_after": 300})
	for call, workspace := range []string{"", "", "2"} {
		_, err := env.With(map[string]string{"workspace_id": workspace}).Check(t.Context())
		if result := sdk.OutcomeOf(err); result.Kind != sdk.Throttled || result.RetryAfter <= 0 || result.RetryAfter > 5*time.Minute {
			t.Errorf("call %d returned %v, want throttled with the rest of the Retry-After of 5 minutes", call+1, err)
		}
	}
	if sent := len(env.Requests()); sent != 1 {
		t.Errorf("%d requests were sent, want only the one that was refused", sent)
	}
	if p.Waits == nil {
		t.Error("Plugin.Waits is not set, so the host cannot share the waits with other processes")
	}
}
