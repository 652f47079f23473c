// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports/contract"
)

// Options are the parameters of Test.
type Options struct {
	// Path is the plugin's file.
	Path string
	// Settings and Secrets replace settings and secrets of the simulator. If Real is true, they are
	// the connection to the real account.
	Settings, Secrets map[string]string
	// Real runs only the checks that are safe on a real account, against that account.
	Real bool
	// Only lists the ids of the checks to run, or prefixes of ids as in Skip. Empty means all
	// checks.
	Only []string
	// Skip maps the id of each check that must not run to the reason. A key can also be the
	// beginning of ids up to a slash, such as `dns/write/`. It then applies to all checks with
	// these ids.
	Skip map[string]string
	// Limits are the limits of each process that Binary.Start starts. The commands of the plugin,
	// such as `describe`, run without them.
	Limits wire.Limits
	// Done is called with each result, in the order of List. It may be nil.
	Done func(Result)
}

// parallelChecks is how many checks run at the same time. They mostly wait.
const parallelChecks = 4

// Item describes a check of the suite.
type Item struct {
	ID     string
	Proves string
	// Real is true if the check is safe on a real account.
	Real bool
}

type suiteCheck struct {
	Item
	run func(t T, e *environment)
}

// List returns the checks of a kind of plugins, in the order in which Test reports them. If kind is
// "", it returns the checks that apply to every plugin.
func List(kind string) []Item {
	var items []Item
	for _, c := range checksOf(kind) {
		items = append(items, c.Item)
	}
	return items
}

// checksOf returns the checks that List describes.
func checksOf(kind string) []suiteCheck {
	var checks []suiteCheck
	for _, c := range pluginChecks {
		checks = append(checks, suiteCheck{Item{c.ID, c.Proves, true}, func(t T, e *environment) { c.Run(t, e.Binary) }})
	}
	if kind == "" {
		return checks
	}
	for _, c := range accountChecks(kind) {
		checks = append(checks, suiteCheck{Item{c.ID, c.Proves, true}, func(t T, e *environment) {
			switch {
			case e.options.Real:
				e.process = e.Start(t)
			case kind == string(wire.KindSending):
				newSendingEnvironment(t, e) // sets the settings and secrets of the simulator's Suite
			default:
				e.start(t, newZoneServer(t, e.description.Name).url)
			}
			c.Run(t, e)
		}})
	}
	switch kind {
	case string(wire.KindDNS):
		checks = append(checks, withSimulator(failureChecks(kind))...)
		checks = append(checks, inEnvironment(contract.DNSProviderChecks(), func(t T, e *environment) contract.DNSProviderEnv {
			return newDNSEnvironment(t, e)
		})...)
		checks = append(checks, inEnvironment(dnsChecks, newDNSEnvironment)...)
	case string(wire.KindMail):
		checks = append(checks, withSimulator(failureChecks(kind))...)
		checks = append(checks, inEnvironment(contract.MailPlatformChecks(), newMailEnvironment)...)
	case string(wire.KindSending):
		checks = slices.Insert(checks, len(pluginChecks), suiteCheck{Item{sendingDescription.ID, sendingDescription.Proves, true}, func(t T, e *environment) {
			sendingDescription.Run(t, e.Binary)
		}})
		checks = append(checks, suiteCheck{Item{"sending/failures/" + healthCheck, healthProves, false}, checkSendingHealth})
		checks = append(checks, inEnvironment(contract.SendingPlatformChecks(), newSendingEnvironment)...)
	}
	return checks
}

// withSimulator returns checks of failing providers as suiteChecks. They use the simulator to find
// out the settings and secrets of a connection.
func withSimulator(checks []check) (suiteChecks []suiteCheck) {
	for _, c := range checks {
		suiteChecks = append(suiteChecks, suiteCheck{Item{c.ID, c.Proves, false}, func(t T, e *environment) {
			zones := newZoneServer(t, e.description.Name)
			e.zone = zones.add()
			e.startSimulator(t, zones.url)
			e.Connect, e.isNotHTTP = func(base string) sdk.Connection { return e.connect(t, base) }, !e.speaksHTTP()
			c.Run(t, e.Binary)
		}})
	}
	return suiteChecks
}

// inEnvironment returns the checks as suiteChecks. newEnvironment creates the environment of each
// check.
func inEnvironment[E any](checks []contract.Check[E], newEnvironment func(T, *environment) E) (suiteChecks []suiteCheck) {
	for _, c := range checks {
		suiteChecks = append(suiteChecks, suiteCheck{Item{c.ID, c.Proves, false}, func(t T, e *environment) { c.Run(t, newEnvironment(t, e)) }})
	}
	return suiteChecks
}

// Test runs the suite over a plugin. It returns an error only if a key of Only or Skip matches no
// check, or if ctx ended. The report contains the failures of the plugin.
func Test(ctx context.Context, o Options) (Report, error) {
	description, describeErr := o.describe(ctx)
	report := Report{File: o.Path, Name: cmp.Or(description.Name, filepath.Base(o.Path)), Kind: string(description.Kind), Version: description.Version, Against: "simulator"}
	if o.Real {
		report.Against = "real"
	}
	checks := checksOf(report.Kind)
	if describeErr != nil {
		// The first check reports why the plugin cannot be described, even if Skip has a key for
		// it. It also fails if the plugin starts only now. No other check can run.
		o.Skip = nil
		first := checks[0]
		run := first.run
		first.run = func(t T, e *environment) {
			run(t, e)
			t.Errorf("an earlier start of the plugin failed: %v", describeErr)
		}
		report.Results = o.runAll(ctx, []suiteCheck{first}, description)
		return report, ctx.Err()
	}
	if o.Real {
		checks = slices.DeleteFunc(checks, func(c suiteCheck) bool { return !c.Real })
	}
	if unknown := o.unknownCheck(checks); unknown != "" {
		return report, fmt.Errorf("there is no check %s", unknown)
	}
	if len(o.Only) > 0 {
		checks = slices.DeleteFunc(checks, func(c suiteCheck) bool {
			return !slices.ContainsFunc(o.Only, func(key string) bool { return keyMatches(key, c.ID) })
		})
	}
	report.Results = o.runAll(ctx, checks, description)
	return report, ctx.Err()
}

func (o *Options) describe(ctx context.Context) (d sdk.Description, err error) {
	binary := Binary{Path: o.Path, exchange: o.newExchange(), limits: o.Limits}
	run := runCheck(ctx, checkTimeout, func(t T) { d = describe(t, binary.Start(t)) })
	if run.hasFailed {
		return sdk.Description{}, errors.New(strings.Join(run.messages, "; "))
	}
	return d, nil
}

func (o *Options) newExchange() *exchange {
	recorder := &exchange{secrets: map[string]string{}}
	recorder.addSecrets(o.Secrets)
	return recorder
}

// unknownCheck returns a key of Only or Skip that matches no check, or "".
func (o *Options) unknownCheck(checks []suiteCheck) string {
	for _, key := range slices.Concat(o.Only, slices.Sorted(maps.Keys(o.Skip))) {
		if !slices.ContainsFunc(checks, func(c suiteCheck) bool { return keyMatches(key, c.ID) }) {
			return key
		}
	}
	return ""
}

// keyMatches reports whether a key of Only or Skip is the id of a check, or the beginning of this
// id up to one of its slashes. The key can omit this slash.
func keyMatches(key, id string) bool {
	return key == id || strings.HasPrefix(id, strings.TrimSuffix(key, "/")+"/")
}

// runAll runs the checks, several at a time, and returns the results in the order of checks.
func (o *Options) runAll(ctx context.Context, checks []suiteCheck, d sdk.Description) []Result {
	results := make([]chan Result, len(checks))
	slots := make(chan struct{}, parallelChecks)
	var group panics.Group
	for i := range checks {
		results[i] = make(chan Result, 1)
	}
	group.Go(func() {
		for i, c := range checks {
			slots <- struct{}{}
			group.Go(func() {
				defer func() { <-slots }()
				results[i] <- o.runOne(ctx, c, d)
			})
		}
	})
	var finished []Result
	for _, result := range results {
		r := <-result
		finished = append(finished, r)
		if o.Done != nil {
			o.Done(r)
		}
	}
	group.Wait()
	return finished
}

// runOne runs one check and returns its result. It skips the check if Skip has a key for it, or if
// ctx has ended.
func (o *Options) runOne(ctx context.Context, c suiteCheck, d sdk.Description) Result {
	result := Result{ID: c.ID, Proves: c.Proves, Status: Passed}
	for key, reason := range o.Skip {
		if keyMatches(key, c.ID) {
			result.Status, result.Reason = Skipped, cmp.Or(reason, "skipped by --skip")
			return result
		}
	}
	if ctx.Err() != nil {
		result.Status, result.Reason = Skipped, "the run was interrupted"
		return result
	}
	start, recorder := time.Now(), o.newExchange()
	run := runCheck(ctx, checkTimeout, func(t T) {
		c.run(t, &environment{Binary: Binary{Path: o.Path, exchange: recorder, pacer: newPacer(d.Budgets), limits: o.Limits}, options: o, description: d})
	})
	result.Duration = time.Since(start)
	run.mu.Lock()
	defer run.mu.Unlock()
	records, violations := recorder.recordsAndViolations()
	for _, message := range append(run.messages, violations...) {
		result.Messages = append(result.Messages, recorder.redact(message))
	}
	switch {
	case run.hasFailed || len(violations) > 0:
		result.Status, result.Calls = Failed, records
	case run.skipReason != "":
		result.Status, result.Reason = Skipped, run.skipReason
	}
	return result
}
