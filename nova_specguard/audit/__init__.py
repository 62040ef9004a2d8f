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

"""What is at rest in the databases, against what nova would write today.

``selection``
    which servers and fields
``api_rows``, ``cell_rows``
    reading in bulk: raw columns, since loading a RequestSpec can write
``stored``
    what a stored text says, and whether this nova can load it
``alike``
    servers that are like one with which nothing was wrong
``server``
    one server's rows and its state
``allocations``
    what placement has allocated to a server
``classes``
    the drift classes that only the audit sees
``findings``
    what is wrong with a server, by the fields' own comparison
``audit``
    from page to page, from cell to cell
``healing``, ``repair``
    whether a text can be healed, and what it becomes
``spec_row``, ``journal``, ``healer``
    writing it, keeping the old one, one server at a time
``history``, ``parting``, ``causes``
    what is on record about servers, and what of it fits their drift
``report``
    rows, sums, metrics
"""
