// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/outcome"
)

// checkPlugins checks that every plugin of the catalog starts and describes itself, and that the
// catalog has the plugin of the mail platform. If the check passes, the finding shows the limits of
// the plugin processes and the hosts that each plugin may connect to.
func (e *examination) checkPlugins(context.Context) finding {
	dir := e.config.PluginDir
	host, err := e.pluginHost()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failedFinding(wiring.CatalogFix(dir, err), "%s has no plugin catalog", dir)
	case err != nil:
		return failedFinding(wiring.CatalogFix(dir, err), "%s", cli.FirstLine(err))
	}
	var running []string
	for _, p := range host.Status() {
		if _, err := e.describe(p.Name); err != nil {
			return pluginFailure(host, p.Name, dir, err)
		}
		running = append(running, p.Name+" "+p.Version)
	}
	if err := wiring.CheckMailPlatform(host, e.config.MailPlatform, dir); err != nil {
		return failedFinding(cli.FixOf(err), "%s", err)
	}
	return okFinding("%s: each is unchanged since it was added, and starts; limits of each process: %s; %s",
		strings.Join(running, ", "), limitsInForce(host), e.allowedHosts(host))
}

func (e *examination) allowedHosts(host *pluginhost.Host) string {
	var texts []string
	for _, p := range host.Status() {
		d, err := e.describe(p.Name)
		switch {
		case err != nil:
		case len(d.Hosts) == 0:
			texts = append(texts, p.Name+" connects to any host")
		default:
			texts = append(texts, p.Name+" connects only to "+strings.Join(d.Reaches(e.config.Providers[p.Name]), ", "))
		}
	}
	return strings.Join(texts, "; ")
}

// limitsInForce describes the limits that the kernel enforces on each plugin process. They are
// equal for all plugins.
func limitsInForce(host *pluginhost.Host) string {
	for _, p := range host.Status() {
		if p.State == pluginhost.Running {
			return p.Limits.String()
		}
	}
	return "no plugin runs"
}

// checkProviderSettings checks that each provider with settings has a plugin, and that the plugin
// defines each of the settings. It skips a plugin that does not start, which checkPlugins reports.
func (e *examination) checkProviderSettings(context.Context) finding {
	host, err := e.pluginHost()
	if err != nil {
		return skippedFinding("plugins")
	}
	var names []string
	for _, p := range host.Status() {
		names = append(names, p.Name)
	}
	if problems := wiring.ProviderSettingProblems(e.config.Providers, names, e.describe); len(problems) > 0 {
		texts := make([]string, len(problems))
		for i, problem := range problems {
			texts[i] = problem.Error()
		}
		return failedFinding("correct or remove the setting; `tenantry serve` does not start with an unknown setting", "%s", strings.Join(texts, "; "))
	}
	return okFinding("each setting of a provider is known to its plugin")
}

// pluginFailure returns the finding for a plugin that does not start, with the reason and a fix.
func pluginFailure(host *pluginhost.Host, name, dir string, err error) finding {
	reason := cli.FirstLine(err)
	for _, p := range host.Status() {
		if p.Name == name && p.LastError != nil {
			reason = p.LastError.Error()
		}
	}
	fix := fmt.Sprintf("run the plugin's file in %s with the argument `describe`, and read what it prints", dir)
	if path := (*fs.PathError)(nil); errors.Is(err, fs.ErrNotExist) && errors.As(err, &path) {
		fix = "put the file of the plugin back: it is part of this version of tenantry, or comes from the plugin's author"
		if path.Op == "fork/exec" { // the file exists, but not the interpreter or loader that it names
			fix = "install the interpreter that the plugin's file needs: a script names it in its first line"
		}
	}
	var startErr *outcome.Error
	if errors.As(err, &startErr) && startErr.Cause == "plugin_checksum" {
		fix = "restore the original file, or, if you trust the new file: tenantry plugin add --plugin-dir " + dir + " FILE"
	}
	if errors.As(err, &startErr) && startErr.Cause == "plugin_version" {
		fix = "install the plugin of this version of tenantry"
	}
	return failedFinding(fix, "%s does not start: %s", name, reason)
}
