// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/wire"
)

type pluginTestFlags struct {
	settingsFile, credentialFile, junitFile string
	against                                 string
	only, skip                              []string
	yes                                     bool
}

type checkRow struct {
	ID         string   `json:"id"`
	Status     string   `json:"status"`
	Proves     string   `json:"proves"`
	Reason     string   `json:"reason"`
	Messages   []string `json:"messages"`
	Calls      []string `json:"calls"`
	DurationMS int64    `json:"duration_ms"`
}

// pluginReport is the result of `plugin test` as JSON.
type pluginReport struct {
	Plugin  string     `json:"plugin"`
	Kind    string     `json:"kind"`
	Version string     `json:"version"`
	Against string     `json:"against"`
	Passed  int        `json:"passed"`
	Failed  int        `json:"failed"`
	Skipped int        `json:"skipped"`
	Checks  []checkRow `json:"checks"`
}

func pluginTestCommand() *cobra.Command {
	var f pluginTestFlags
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Run the conformance suite over a plugin in any language",
		Long: "Runs the conformance suite over a plugin binary. The plugin is tested against its own simulator, which\n" +
			"the command starts. With --against real, the plugin calls the provider itself, with the values of --settings\n" +
			"and --credential-file, and only checks that read are run. A failed check shows the calls that it made,\n" +
			"without secrets.\n\n" +
			"The exit code is 0 if no check failed, 1 if a check failed, and 4 if no check failed but the plugin has\n" +
			"no simulator, so that checks were skipped.",
		Args: cli.OneFile,
		RunE: func(cmd *cobra.Command, files []string) error { return testPlugin(cmd, files[0], f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.settingsFile, "settings", "", "JSON `file` with an object of settings by field name")
	flags.StringVar(&f.credentialFile, "credential-file", "", "JSON `file` with an object of secrets by field name")
	flags.StringVar(&f.against, "against", "simulator", "`simulator|real`: test against the simulator of the plugin, or against the real provider")
	flags.StringArrayVar(&f.only, "only", nil, "run only this `CHECK`, or all checks below it; can be repeated")
	flags.StringArrayVar(&f.skip, "skip", nil, "`CHECK=REASON`: skip a check, or all checks below CHECK/; can be repeated")
	flags.StringVar(&f.junitFile, "junit", "", "also write the result to this `file` as JUnit XML")
	flags.BoolVar(&f.yes, "yes", false, "do not ask before calling the real provider")
	return cmd
}

func testPlugin(cmd *cobra.Command, file string, f pluginTestFlags) error {
	o, err := f.options(file)
	if err != nil {
		return cli.UsageError(err)
	}
	if o.Real {
		if err := f.confirm(cmd, o); err != nil {
			return err
		}
	}
	if !cli.WantsJSON(cmd) {
		o.Done = func(r conformance.Result) { _ = r.WriteText(cmd.OutOrStdout()) }
	}
	report, err := conformance.Test(cmd.Context(), o)
	switch {
	case cmd.Context().Err() != nil:
		return errors.New("interrupted")
	case err != nil:
		return cli.UsageError(err)
	}
	if f.junitFile != "" {
		if err := writeJUnit(f.junitFile, report); err != nil {
			return cli.WithFix(err, "--junit must name a file that can be written")
		}
	}
	if err := printReport(cmd, report); err != nil {
		return err
	}
	switch {
	case report.Count(conformance.Failed) > 0:
		return cli.ErrReported
	case !report.Complete():
		return cli.ExternalError(cli.ErrReported) // exit code 4, as the help text says
	default:
		return nil
	}
}

// defaultPluginLimits returns the default limits of a plugin process. `plugin test` does not read
// settings, because the author of a plugin may have no service.
func defaultPluginLimits() wire.Limits {
	defaults := settings.Defaults()
	value := func(name string) int {
		n, _ := strconv.Atoi(fmt.Sprint(defaults[name])) // the defaults are constants
		return n
	}
	return wiring.PluginLimits(settings.Config{
		PluginMemoryMiB: value("plugin_memory_mib"), PluginProcesses: value("plugin_processes"), PluginOpenFiles: value("plugin_open_files"),
	})
}

// options returns the options of the conformance suite. Its errors quote no text from the settings
// file or the credential file.
func (f pluginTestFlags) options(file string) (o conformance.Options, err error) {
	o = conformance.Options{Path: file, Only: f.only, Skip: map[string]string{}, Limits: defaultPluginLimits()}
	if info, err := os.Stat(file); err != nil {
		return o, err
	} else if info.IsDir() {
		return o, fmt.Errorf("%s is a folder; name the plugin's program in it, for example %s", file, filepath.Join(file, filepath.Base(file)))
	}
	switch f.against {
	case "simulator":
	case "real":
		o.Real = true
		if f.credentialFile == "" {
			return o, errors.New("--against real requires --credential-file")
		}
	default:
		return o, errors.New("--against must be simulator or real")
	}
	for _, skip := range f.skip {
		check, reason, found := strings.Cut(skip, "=")
		if !found || check == "" || reason == "" {
			return o, fmt.Errorf("--skip %s must be CHECK=REASON", skip)
		}
		o.Skip[check] = reason
	}
	if o.Settings, err = readTexts("--settings", f.settingsFile); err != nil {
		return o, err
	}
	o.Secrets, err = readTexts("--credential-file", f.credentialFile)
	return o, err
}

// readTexts reads a JSON object whose values are strings. name is the file that the flag names. If
// name is empty, readTexts returns nil.
func readTexts(flag, name string) (texts map[string]string, err error) {
	if name == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if json.Unmarshal(raw, &texts) != nil { // the error could quote a secret from the file
		return nil, fmt.Errorf("%s: %s must contain one JSON object whose values are strings", flag, name)
	}
	return texts, nil
}

// confirm prints all checks that --against real can run, and asks for confirmation unless --yes is
// set.
func (f pluginTestFlags) confirm(cmd *cobra.Command, o conformance.Options) error {
	out := cmd.ErrOrStderr()
	_, _ = fmt.Fprintf(out, "%s will be called with the credential of %s. The checks only read:\n", o.Path, f.credentialFile)
	for _, c := range conformance.List("") {
		_, _ = fmt.Fprintf(out, "  %s: %s\n", c.ID, c.Proves)
	}
	for _, kind := range []string{"mail", "dns", "sending"} {
		for _, c := range conformance.List(kind) {
			if c.Real && strings.HasPrefix(c.ID, kind+"/") {
				_, _ = fmt.Fprintf(out, "  %s: %s (%s plugins)\n", c.ID, c.Proves, kind)
			}
		}
	}
	if f.yes {
		return nil
	}
	if cli.Confirm(cmd, "Continue?") {
		return nil
	}
	return cli.WithFix(errors.New("not confirmed: the provider was not called"), "answer y, or set --yes")
}

// printReport prints the summary below the results of the checks, or the whole report as JSON.
func printReport(cmd *cobra.Command, r conformance.Report) error {
	if !cli.WantsJSON(cmd) {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), r.Summary())
		return err
	}
	shown := pluginReport{
		Plugin: r.Name, Kind: r.Kind, Version: r.Version, Against: r.Against, Checks: []checkRow{},
		Passed: r.Count(conformance.Passed), Failed: r.Count(conformance.Failed), Skipped: r.Count(conformance.Skipped),
	}
	for _, result := range r.Results {
		shown.Checks = append(shown.Checks, checkRow{
			ID: result.ID, Status: string(result.Status), Proves: result.Proves, Reason: result.Reason,
			Messages: append([]string{}, result.Messages...), Calls: append([]string{}, result.Calls...), DurationMS: result.Duration.Milliseconds(),
		})
	}
	return json.NewEncoder(cmd.OutOrStdout()).Encode(shown)
}

func writeJUnit(name string, r conformance.Report) (err error) {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return r.WriteJUnit(file)
}
