module nri-cpuset/test/browser

go 1.26.0

require nri-cpuset v0.0.0

require golang.org/x/sys v0.49.0 // indirect

replace nri-cpuset => ../../
