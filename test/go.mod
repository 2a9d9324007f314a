module nri-cpuset/test

go 1.26.0

require nri-cpuset v0.0.0

replace nri-cpuset => ../
