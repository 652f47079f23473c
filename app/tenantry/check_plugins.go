// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/core/outcome"
)

// plugins starts every plugin of the catalog and lets it describe itself.
func (e *examination) plugins(context.Context) finding {
	dir := e.config.PluginDir
	host, err := e.host()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return broken(catalogFix(dir, err), "%s holds no plugin catalog", dir)
	case err != nil:
		return broken(catalogFix(dir, err), "%s", cli.OneLine(err))
	}
	var well []string
	for _, p := range host.Status() {
		if _, err := e.about(p.Name); err != nil {
			return sick(host, p.Name, dir, err)
		}
		well = append(well, p.Name+" "+p.Version)
	}
	if _, err := e.about(mailPlatform); err != nil {
		return broken("add the plugin of the mail platform: tenantry plugin add --plugin-dir "+dir+" "+filepath.Join(dir, "mail-"+mailPlatform),
			"the catalog in %s has no plugin %s", dir, mailPlatform)
	}
	return fine("%s: unchanged since added, and running when asked", strings.Join(well, ", "))
}

// sick says why a plugin does not run.
func sick(host *pluginhost.Host, name, dir string, err error) finding {
	why := cli.OneLine(err)
	for _, p := range host.Status() {
		if p.Name == name && p.LastError != nil {
			why = p.LastError.Error()
		}
	}
	fix := fmt.Sprintf("run its binary in %s by hand with `describe`: it says why it does not start", dir)
	if errors.Is(err, fs.ErrNotExist) {
		fix = "put the file back: it came with this version of tenantry, or from the plugin's author"
	}
	var o *outcome.Error
	if errors.As(err, &o) && o.Cause == "plugin_checksum" {
		fix = "put the right file back, or, if you trust the new one: tenantry plugin add --plugin-dir " + dir + " FILE"
	}
	if errors.As(err, &o) && o.Cause == "plugin_version" {
		fix = "install the plugin that was made for this version of tenantry"
	}
	return broken(fix, "%s does not start: %s", name, why)
}
