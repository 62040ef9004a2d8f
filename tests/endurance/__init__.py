# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

# Finds out whether there are forkservers, which eventlet's sockets hide.
import multiprocessing.reduction  # noqa: F401

# nova has to decide between eventlet and native threads before anything else
# is imported; its own functional tests do so in their package.
import nova.tests.functional  # noqa: F401
