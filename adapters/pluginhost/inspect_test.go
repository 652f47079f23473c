// SPDX-License-Identifier: Apache-2.0

package pluginhost_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/pluginhost"
)

func TestInspectReportsProblems(t *testing.T) {
	dir := pluginDir(t, "good:puppet", "crashes:puppet", "gone:puppet", "misnamed:puppet", "liar:hostile")
	if err := os.Remove(filepath.Join(dir, "mail-gone")); err != nil {
		t.Fatal(err)
	}
	editCatalog(t, dir, `"file":"mail-misnamed"`, `"file":"mail-good"`)
	inspections, err := pluginhost.Inspect(pluginhost.Options{Dir: dir, Supervision: fastRestart})
	if err != nil || len(inspections) != 5 {
		t.Fatalf("got %v, %v, want five inspections", inspections, err)
	}
	problems := map[string]string{}
	for _, inspection := range inspections {
		if inspection.Problem != nil {
			problems[inspection.Name] = inspection.Problem.Error()
		}
	}
	for name, want := range map[string]string{"crashes": "mail-crashes", "gone": "is missing", "misnamed": `itself as "good"`, "liar": "mail-liar"} {
		if !strings.Contains(problems[name], want) {
			t.Errorf("%s: problem %q, want %q in it", name, problems[name], want)
		}
	}
	if problems["good"] != "" || inspections[0].Description.Title != "Puppet" {
		t.Errorf("the plugin that works: %+v, want its description and no problem", inspections[0])
	}
	selected, err := pluginhost.Inspect(pluginhost.Options{Dir: dir, Supervision: fastRestart}, "good")
	if err != nil || len(selected) != 1 || selected[0].Problem != nil {
		t.Errorf("inspected by its name: %+v, %v, want only the plugin `good` without a problem", selected, err)
	}
	if _, err := pluginhost.Inspect(pluginhost.Options{Dir: dir, Supervision: fastRestart}, "nobody"); !errors.Is(err, pluginhost.ErrNotInCatalog) {
		t.Errorf("an unknown name: %v, want ErrNotInCatalog", err)
	}
	if _, err := pluginhost.Inspect(pluginhost.Options{Dir: t.TempDir()}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder without a catalog: %v, want fs.ErrNotExist", err)
	}
}

func TestInspectComparesVersions(t *testing.T) {
	dir := pluginDir(t, "good:puppet")
	editCatalog(t, dir, `"version":"1.2.3"`, `"version":"1.2.2"`)
	inspections, err := pluginhost.Inspect(pluginhost.Options{Dir: dir, Supervision: fastRestart})
	if err != nil || inspections[0].Problem == nil || !strings.Contains(inspections[0].Problem.Error(), "1.2.3") {
		t.Fatalf("got %+v, %v, want a problem that names version 1.2.3", inspections, err)
	}
}
