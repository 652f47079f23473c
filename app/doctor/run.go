// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore/maintenance"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/plugins/wire"
)

const (
	// checkTimeout limits each check. It is long because the first start of all plugins takes more
	// than 10 s on a small or busy machine.
	checkTimeout = 60 * time.Second
	// probeTimeout limits some steps of a check, such as opening the database or starting a plugin.
	probeTimeout = 30 * time.Second
)

// checks lists all checks in the order of the report.
var checks = []struct {
	id  string
	run func(*examination, context.Context) finding
}{
	{"database", (*examination).checkDatabase},
	{"migrations", (*examination).checkMigrations},
	{"keyset", (*examination).checkKeyset},
	{"public_url", (*examination).checkPublicURL},
	{"plugins", (*examination).checkPlugins},
	{"provider_settings", (*examination).checkProviderSettings},
	{"mail_platform", (*examination).checkMailPlatform},
	{"dns", (*examination).checkDNS},
	{"redis", (*examination).checkRedis},
	{"clock", (*examination).checkClock},
	{"credentials", (*examination).checkCredentials},
}

// finding is the result of a check. The fix says how the operator corrects the problem. The summary
// and the fix must not contain a secret or a customer's data.
type finding struct{ status, summary, fix string }

func okFinding(summary string, args ...any) finding {
	return finding{status: OK, summary: fmt.Sprintf(summary, args...)}
}

func warningFinding(fix, summary string, args ...any) finding {
	return finding{Warning, fmt.Sprintf(summary, args...), fix}
}

func failedFinding(fix, summary string, args ...any) finding {
	return finding{Failed, fmt.Sprintf(summary, args...), fix}
}

// skippedFinding returns the finding of a check that can run only after the check with the id
// requiredCheck passes.
func skippedFinding(requiredCheck string) finding {
	return warningFinding("fix the check "+requiredCheck+" first", "not checked: the check %s must pass first", requiredCheck)
}

// examination is one run of doctor.
type examination struct {
	config settings.Config
	// settingProblems maps the name of each invalid setting to its problem. The check that uses the
	// setting reports the problem.
	settingProblems map[string]string
	// The first call of openDatabase or pluginHost opens the object, and later calls return the
	// same result.
	openDatabase func() (*maintenance.Inspection, error)
	pluginHost   func() (*pluginhost.Host, error)
	// describe starts the plugin of a provider and returns its description.
	describe func(provider string) (wire.Description, error)
}

// newExamination returns an examination of the settings. It fails for an invalid setting that no
// check reports.
func newExamination(c settings.Config) (*examination, error) {
	e := &examination{config: c, settingProblems: map[string]string{}}
	for _, problem := range c.Problems() {
		switch problem.Setting {
		case "database_url", "public_url", "redis_url", "dns_resolvers", "dns_mode", "dns_port":
			e.settingProblems[problem.Setting] = problem.Text
		default:
			return nil, problem
		}
	}
	return e, nil
}

// run runs all checks in parallel, so that a slow check does not delay the others, and returns the
// report.
func (e *examination) run(ctx context.Context) report {
	e.openDatabase = sync.OnceValues(func() (*maintenance.Inspection, error) {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		return maintenance.Inspect(ctx, e.config.DatabaseURL)
	})
	e.pluginHost = sync.OnceValues(func() (*pluginhost.Host, error) {
		return pluginhost.New(pluginhost.Options{Dir: e.config.PluginDir, Log: slog.New(slog.DiscardHandler), Env: os.Environ(), Limits: wiring.PluginLimits(e.config)})
	})
	e.describe = func(provider string) (wire.Description, error) {
		host, err := e.pluginHost()
		if err != nil {
			return wire.Description{}, err
		}
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		return host.Describe(ctx, provider)
	}
	r := report{Status: OK, Version: cli.Version, Checks: make([]checkResult, len(checks))}
	var running panics.Group
	for i := range checks {
		running.Go(func() { r.Checks[i] = e.runCheck(ctx, i) })
	}
	running.Wait()
	e.close()
	for _, result := range r.Checks {
		if result.Status == Failed || r.Status == OK {
			r.Status = result.Status
		}
	}
	return r
}

// runCheck runs the check with index i. If the check ignores its deadline, runCheck returns a
// failure and leaves the goroutine running.
func (e *examination) runCheck(ctx context.Context, i int) checkResult {
	start := time.Now()
	found := make(chan finding, 1)
	panics.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		found <- checks[i].run(e, ctx)
	}, func(p *panics.Error) {
		found <- failedFinding("report this error to the authors of tenantry", "the check failed with a %s", p)
	})
	var f finding
	select {
	case f = <-found:
	case <-time.After(checkTimeout + time.Second):
		f = failedFinding("run `tenantry doctor` again; the system that this check calls does not answer", "no result within %s", checkTimeout)
	}
	return checkResult{checks[i].id, f.status, f.summary, f.fix, time.Since(start).Milliseconds()}
}

// close closes the database and the plugin host. The other resources of a check that is still
// running are released when the process exits.
func (e *examination) close() {
	if db, err := e.openDatabase(); err == nil {
		_ = db.Close()
	}
	if host, err := e.pluginHost(); err == nil {
		host.Close()
	}
}
