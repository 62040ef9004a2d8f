#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What commands raise to end with a message and an exit code of their own."""

# Of nova-manage. cliff itself ends with 1 after an exception, and with 2 after
# bad arguments, which mean something else here.
BAD_ARGUMENTS = 127
CRASH = 255


class CommandError(Exception):
    """The command cannot do what it was asked for.

    :ivar exit_code: with what the program ends
    """

    def __init__(self, message, exit_code=BAD_ARGUMENTS):
        super().__init__(message)
        self.exit_code = exit_code
